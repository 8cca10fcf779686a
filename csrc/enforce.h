// ENFORCE(condition, message...): a broken invariant of ours throws std::runtime_error with file and line.
// Mistakes of a user are reported in Python, before the core is called.
#pragma once

#include <sstream>
#include <stdexcept>

namespace hemiola::detail {

template <typename... Parts>
[[noreturn]] void enforce_failed(const char* file, int line, const char* condition, const Parts&... message) {
  std::ostringstream text;
  text << file << ':' << line << ": broken invariant: " << condition;
  if constexpr (sizeof...(message) > 0) {
    text << ": ";
    (text << ... << message);
  }
  throw std::runtime_error(text.str());
}

}  // namespace hemiola::detail

// Example: ENFORCE(slot < num_slots, "slot ", slot, " of ", num_slots);
#define ENFORCE(condition, ...)                                                                     \
  do {                                                                                              \
    if (!(condition)) [[unlikely]]                                                                  \
      ::hemiola::detail::enforce_failed(__FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__); \
  } while (false)
