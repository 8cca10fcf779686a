// Monotonic time in nanoseconds, the same for every process of a host.
#pragma once

#include <ctime>
#include <cstdint>

namespace hemiola::runtime {

inline int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

}  // namespace hemiola::runtime
