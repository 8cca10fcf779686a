// How a worker of a run waits while nothing can be moved. This is the one place where that is decided.
//
// If somebody waits for the result, the core would be idle otherwise. The worker polls with pauses, then with yields,
// and sleeps when that has lasted long enough or when a yield shows that another thread needs the core.
//
// If nobody waits for the result, the thread that queued the call computes. The worker sleeps at once: whoever sends
// the next message wakes it. A yield would be worse than a sleep here. A thread that yields to a computation gets the
// core back after a whole time slice of the scheduler, a thread that is woken gets it at once.
#pragma once

#include <sched.h>

#include <cstdint>

#include "runtime/attention.h"
#include "runtime/call.h"
#include "runtime/clock.h"

namespace hemiola::runtime {

constexpr int64_t kCheckInterval = 20'000'000;  // nanoseconds between the liveness checks of a rank that waits

enum class WaitStep { pause, check, yield, announce, sleep };

class Waiting {
 public:
  // Without `attention` the thread that made the call runs it, and so waits for it.
  Waiting(const WaitPolicy& policy, const Attention* attention) : policy_(policy), attention_(attention) {}

  // What to do next. Every step but a pause has read the clock.
  WaitStep next() {
    const bool attended = is_attended();
    if (attended && polls_++ < policy_.spins) return WaitStep::pause;
    time_ = now();
    if (since_ == 0) since_ = last_check_ = time_;
    if (time_ - last_check_ >= kCheckInterval) {
      last_check_ = time_;
      return WaitStep::check;
    }
    if (attended && !crowded_ && time_ - since_ < policy_.yield_nanoseconds) return WaitStep::yield;
    return announced_ ? WaitStep::sleep : WaitStep::announce;
  }

  // Gives up the core once. A yield that takes long has let somebody else work.
  void yield() {
    sched_yield();
    crowded_ = now() - time_ > policy_.crowd_nanoseconds;
  }

  bool is_attended() const { return attention_ == nullptr || attention_->is_paid(); }
  // Nanoseconds without any progress, as of the last step.
  int64_t duration() const { return time_ - since_; }
  void note_progress_elsewhere() { since_ = time_; }

  // A sleep is announced first, then the worker looks for messages once more, then it sleeps.
  void announce(uint32_t bell) {
    bell_ = bell;
    announced_ = true;
  }
  bool is_announced() const { return announced_; }
  uint32_t bell() const { return bell_; }
  void end_sleep() { announced_ = false; }

  // Something was moved: the next wait begins anew.
  void restart() {
    polls_ = 0;
    since_ = last_check_ = 0;
    announced_ = crowded_ = false;
  }

 private:
  const WaitPolicy& policy_;
  const Attention* attention_;
  uint64_t polls_ = 0;
  int64_t time_ = 0, since_ = 0, last_check_ = 0;
  bool announced_ = false, crowded_ = false;
  uint32_t bell_ = 0;
};

}  // namespace hemiola::runtime
