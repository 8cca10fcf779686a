// The progress thread of a rank: it runs queued calls one after another, in the order in which they were put.
//
// Who owns what:
// - The thread runs nothing but jobs, and a job is C++ alone. It never takes Python's lock, so calls get on while
// Python
//   computes with the lock held, and a thread that holds the lock may wait for this one.
// - Nothing is called back from here. Whoever wants to know that a call has ended waits for it, in a thread of its own.
// - What a job points to (the prepared call, the rank's endpoint, the arrays) stays where it is until the call is done.
//   Whoever puts the call sees to that.
// - The thread starts with the first call. close() lets the calls that were put finish and ends it.
// - In a forked child there is no such thread. The child leaves the object alone, locks included.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/attention.h"
#include "runtime/queued_call.h"

namespace hemiola::runtime {

class ProgressThread {
 public:
  ProgressThread() = default;
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // Adds a call to the end of the queue. After close(), and in a forked child, it throws std::logic_error.
  std::shared_ptr<QueuedCall> put(QueuedCall::Job job);

  // Returns when every call that was put is done and the thread has ended. A second call does nothing.
  void close();

 private:
  struct Queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::shared_ptr<QueuedCall>> calls;
    bool closing = false;
  };

  static void serve(Queue& queue);
  void start();

  std::shared_ptr<Attention> attention_ = std::make_shared<Attention>();
  std::unique_ptr<Queue> queue_ = std::make_unique<Queue>();
  std::unique_ptr<std::thread> thread_;
  pid_t process_ = 0;  // in which the thread runs; 0: not started
};

}  // namespace hemiola::runtime
