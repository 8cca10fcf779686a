// Attention: whether somebody waits for the calls that a progress thread runs.
#pragma once

#include <atomic>
#include <cstdint>

namespace hemiola::runtime {

class Attention {
 public:
  void begin() { num_waiting_.fetch_add(1, std::memory_order_relaxed); }
  void end() { num_waiting_.fetch_sub(1, std::memory_order_relaxed); }
  bool is_paid() const { return num_waiting_.load(std::memory_order_relaxed) != 0; }

 private:
  std::atomic<uint32_t> num_waiting_{0};
};

}  // namespace hemiola::runtime
