// A queued call as Python holds it, with the object that keeps its memory.
//
// The progress thread cannot give up references to Python's objects, because it never takes Python's lock. So the owner
// is let go by whoever holds the lock and sees that the call has ended. Where nobody does so before this value goes,
// the owner stays for ever, for the thread may still write to its memory.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>

#include "runtime/queued_call.h"

namespace hemiola::bindings {

class StartedCall {
 public:
  StartedCall(std::shared_ptr<runtime::QueuedCall> call, nanobind::object owner);
  ~StartedCall();
  StartedCall(StartedCall&&) noexcept = default;
  StartedCall(const StartedCall&) = delete;
  StartedCall& operator=(const StartedCall&) = delete;
  StartedCall& operator=(StartedCall&&) = delete;

  // Whether the call has ended; then its owner is let go.
  bool is_done();
  // Waits without Python's lock until the call has ended or the seconds are over; whether it has ended.
  bool wait(std::optional<double> seconds, bool pays_attention);
  nanobind::object failure() const;

 private:
  std::shared_ptr<runtime::QueuedCall> call_;
  nanobind::object owner_;
};

void bind_started_call(nanobind::module_& module);

}  // namespace hemiola::bindings
