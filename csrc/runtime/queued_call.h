// A call that the progress thread runs while the thread that made it goes on.
//
// The job and what it points to belong to the progress thread until the call is done; the failure belongs to it until
// then, and to everybody who reads afterwards. Any thread may ask and wait.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "runtime/attention.h"
#include "runtime/board.h"

namespace hemiola::runtime {

class QueuedCall {
 public:
  using Job = std::function<Failure(const Attention&)>;

  QueuedCall(Job job, std::shared_ptr<Attention> attention) : job_(std::move(job)), attention_(std::move(attention)) {}

  bool is_done() const { return is_done_.load(std::memory_order_acquire); }

  // Waits until the call is done or the time is over; whether it is done. Where `pays_attention`, a computation waits
  // for the call, and the progress thread hurries; otherwise the caller only wants to know.
  bool wait(int64_t nanoseconds, bool pays_attention = true);

  // Why the call failed; only after it is done.
  const Failure& failure() const { return failure_; }

 private:
  friend class ProgressThread;

  void run();

  Job job_;
  std::shared_ptr<Attention> attention_;
  Failure failure_;
  std::atomic<bool> is_done_{false};
  std::mutex mutex_;
  std::condition_variable ended_;
};

}  // namespace hemiola::runtime
