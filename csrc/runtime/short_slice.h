// Asks the scheduler to give the calling thread short turns, soon.
//
// A thread that sleeps until a message comes, and then has little to do, should run at once when it is woken, although
// a computation has the core. Linux (from 6.12) lets a thread that asks for shorter time slices preempt one with longer
// slices. The thread's share of the core stays the same, and no privilege is needed. Other kernels ignore the wish.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace hemiola::runtime {

inline constexpr uint64_t kShortSlice = 100'000;  // nanoseconds, the least that Linux takes

// The first version of the kernel's struct sched_attr, which the C library of many systems does not have.
struct SchedulingAttributes {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
};
static_assert(sizeof(SchedulingAttributes) == 48);

// Whether the scheduler took the wish. A thread with a policy other than the usual ones keeps what it has.
inline bool ask_for_short_slices() {
  SchedulingAttributes attributes{};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return false;
  if (attributes.policy != 0) return false;  // not SCHED_OTHER
  attributes.size = sizeof(attributes);
  attributes.runtime = kShortSlice;
  return syscall(SYS_sched_setattr, 0, &attributes, 0) == 0;
}

}  // namespace hemiola::runtime
