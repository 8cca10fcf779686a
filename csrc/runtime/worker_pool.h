// Threads that help a run; they sleep between runs.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace hemiola::runtime {

class WorkerPool {
 public:
  explicit WorkerPool(uint32_t num_threads) {
    for (uint32_t k = 0; k < num_threads; ++k) threads_.emplace_back([this, k] { serve(k); });
  }

  ~WorkerPool() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  // Calls job(1) ... job(num_threads) on the threads and job(0) here; returns when all have returned.
  void run(const std::function<void(uint32_t)>& job) {
    {
      const std::lock_guard lock(mutex_);
      job_ = &job;
      ++round_;
      busy_ = threads_.size();
    }
    changed_.notify_all();
    job(0);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return busy_ == 0; });
    job_ = nullptr;
  }

 private:
  void serve(uint32_t number) {
    uint64_t served = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return closing_ || round_ != served; });
      if (closing_) return;
      served = round_;
      const std::function<void(uint32_t)>& job = *job_;
      lock.unlock();
      job(number + 1);
      lock.lock();
      if (--busy_ == 0) changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(uint32_t)>* job_ = nullptr;
  uint64_t round_ = 0;
  size_t busy_ = 0;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace hemiola::runtime
