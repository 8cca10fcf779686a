// Keeps the calling thread on one core of its process for as long as it lives, and lets it go then.
//
// Where ranks share cores, neighbours do best on the same one: what they pass on stays in its caches, and a rank
// finds its own data where it left it. A scheduler does not know that, and moves them about.
#pragma once

#include <sched.h>

#include <cstdint>

namespace hemiola::runtime {

class CoreBinding {
 public:
  // For the place-th of several ranks of a host; nothing is bound while every rank can have a core of its own.
  CoreBinding(uint32_t place, uint32_t num_ranks) {
    if (sched_getaffinity(0, sizeof(before_), &before_) != 0) return;
    const auto num_cores = static_cast<uint32_t>(CPU_COUNT(&before_));
    if (num_cores < 2 || num_ranks <= num_cores) return;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(nth_core(place * uint64_t{num_cores} / num_ranks), &only);
    bound_ = sched_setaffinity(0, sizeof(only), &only) == 0;
  }
  ~CoreBinding() {
    if (bound_) sched_setaffinity(0, sizeof(before_), &before_);
  }
  CoreBinding(const CoreBinding&) = delete;
  CoreBinding& operator=(const CoreBinding&) = delete;

 private:
  size_t nth_core(uint64_t number) const {
    size_t core = 0;
    while (!CPU_ISSET(core, &before_) || number-- > 0) ++core;
    return core;
  }

  cpu_set_t before_;
  bool bound_ = false;
};

}  // namespace hemiola::runtime
