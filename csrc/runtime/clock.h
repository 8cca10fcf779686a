// Monotonic time in nanoseconds, the same for every process of a host.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>

namespace hemiola::runtime {

inline int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

// What it takes to read it twice.
inline int64_t clock_nanoseconds() {
  static const int64_t cost = [] {
    int64_t least = INT64_MAX;
    for (int k = 0; k < 64; ++k) {
      const int64_t begin = now();
      least = std::min(least, now() - begin);
    }
    return least;
  }();
  return cost;
}

}  // namespace hemiola::runtime
