#include "runtime/progress_thread.h"

#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <exception>
#include <stdexcept>
#include <utility>

#include "runtime/short_slice.h"

namespace hemiola::runtime {

namespace {

// A thread that starts meanwhile gets no signals: they are for threads that can act on them, which is Python's first.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

bool QueuedCall::wait(int64_t nanoseconds, bool pays_attention) {
  if (is_done()) return true;
  if (pays_attention) attention_->begin();
  std::unique_lock lock(mutex_);
  const bool done = ended_.wait_for(lock, std::chrono::nanoseconds(nanoseconds), [this] { return is_done(); });
  lock.unlock();
  if (pays_attention) attention_->end();
  return done;
}

void QueuedCall::run() {
  try {
    failure_ = job_(*attention_);
  } catch (const std::exception& error) {
    failure_ = {FailureKind::internal, -1, error.what()};
  }
  job_ = nullptr;
  {
    const std::lock_guard lock(mutex_);
    is_done_.store(true, std::memory_order_release);
  }
  ended_.notify_all();
}

ProgressThread::~ProgressThread() {
  if (process_ != 0 && process_ != getpid()) {  // the thread is the parent's, and may have held the lock at the fork
    queue_.release();                           // NOLINT(bugprone-unused-return-value)
    thread_.release();                          // NOLINT(bugprone-unused-return-value)
    return;
  }
  close();
}

std::shared_ptr<QueuedCall> ProgressThread::put(QueuedCall::Job job) {
  if (process_ != 0 && process_ != getpid())
    throw std::logic_error("this communicator belongs to the parent process; make a new one after the fork");
  auto call = std::make_shared<QueuedCall>(std::move(job), attention_);
  {
    const std::lock_guard lock(queue_->mutex);
    if (queue_->closing) throw std::logic_error("this communicator is closed");
    if (!thread_) start();
    queue_->calls.push_back(call);
  }
  queue_->changed.notify_one();
  return call;
}

void ProgressThread::start() {
  const SignalsBlocked blocked;
  thread_ = std::make_unique<std::thread>([queue = queue_.get()] { serve(*queue); });
  process_ = getpid();
  pthread_setname_np(thread_->native_handle(), "hemiola");
}

void ProgressThread::close() {
  if (process_ != 0 && process_ != getpid()) return;
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->closing = true;
  }
  queue_->changed.notify_one();
  if (thread_ && thread_->joinable()) thread_->join();
}

void ProgressThread::serve(Queue& queue) {
  ask_for_short_slices();
  std::unique_lock lock(queue.mutex);
  for (;;) {
    queue.changed.wait(lock, [&] { return queue.closing || !queue.calls.empty(); });
    if (queue.calls.empty()) return;
    const std::shared_ptr<QueuedCall> call = std::move(queue.calls.front());
    queue.calls.pop_front();
    lock.unlock();
    call->run();
    lock.lock();
  }
}

}  // namespace hemiola::runtime
