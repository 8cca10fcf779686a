// Keeps the calling thread on one of its cores for as long as it lives, and lets it go then.
//
// Where ranks share cores, neighbours do best on the same one: what they pass on stays in its caches, and a rank
// finds its own data where it left it. A scheduler does not know that, and moves them about.
#pragma once

#include <sched.h>

namespace hemiola::runtime {

class CorePin {
 public:
  // Does nothing where the thread may not run on that core, or cannot be asked.
  explicit CorePin(int core) {
    if (core < 0 || core >= CPU_SETSIZE) return;
    if (sched_getaffinity(0, sizeof(before_), &before_) != 0 || !CPU_ISSET(static_cast<size_t>(core), &before_)) return;
    CPU_ZERO(&only_);
    CPU_SET(static_cast<size_t>(core), &only_);
    pinned_ = sched_setaffinity(0, sizeof(only_), &only_) == 0;
  }
  // What somebody else has set meanwhile stays.
  ~CorePin() {
    cpu_set_t now;
    if (pinned_ && sched_getaffinity(0, sizeof(now), &now) == 0 && CPU_EQUAL(&now, &only_))
      sched_setaffinity(0, sizeof(before_), &before_);
  }
  CorePin(const CorePin&) = delete;
  CorePin& operator=(const CorePin&) = delete;

 private:
  cpu_set_t before_, only_;
  bool pinned_ = false;
};

}  // namespace hemiola::runtime
