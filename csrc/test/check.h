// TEST(name) { ... CHECK(condition, message...); }: run.cc runs every TEST of an executable. A CHECK that fails,
// in whatever thread, says where and why and ends the process with status 1.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

namespace hemiola::test {

struct Test {
  const char* name;
  void (*run)();
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

struct Registration {
  Registration(const char* name, void (*run)()) { tests().push_back({name, run}); }
};

template <typename... Parts>
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const Parts&... message) {
  std::ostringstream text;
  text << file << ':' << line << ": not so: " << condition;
  if constexpr (sizeof...(message) > 0) {
    text << ": ";
    (text << ... << message);
  }
  std::fprintf(stderr, "%s\n", text.str().c_str());
  std::_Exit(1);
}

}  // namespace hemiola::test

#define TEST(name)                                                                    \
  static void test_##name();                                                          \
  static const ::hemiola::test::Registration registration_##name(#name, test_##name); \
  static void test_##name()

#define CHECK(condition, ...)                                                                                   \
  do {                                                                                                          \
    if (!(condition)) ::hemiola::test::check_failed(__FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__); \
  } while (false)
