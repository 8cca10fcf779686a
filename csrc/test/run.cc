// The main of every test executable: runs all of its tests, or those whose name contains the first argument.
#include <cstdio>
#include <cstring>
#include <exception>

#include "test/check.h"

int main(int argc, char** argv) {
  const char* const wanted = argc > 1 ? argv[1] : "";
  int num_run = 0;
  for (const auto& test : hemiola::test::tests()) {
    if (!std::strstr(test.name, wanted)) continue;
    ++num_run;
    std::printf("%s\n", test.name);
    std::fflush(stdout);
    try {
      test.run();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: unexpected exception: %s\n", test.name, error.what());
      return 1;
    }
  }
  if (num_run == 0) std::fprintf(stderr, "no test's name contains '%s'\n", wanted);
  return num_run > 0 ? 0 : 1;
}
