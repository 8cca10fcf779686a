// The flight recorder: the latest calls of a rank, what they were and when.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hemiola::runtime {

struct CallRecord {
  uint64_t call = 0;
  int64_t begin = 0;           // monotonic nanoseconds
  std::optional<int64_t> end;  // nothing while the call runs, and after it failed
  std::shared_ptr<const std::string> description;
};

// May be read by any thread while another one runs calls.
class FlightRecorder {
 public:
  static constexpr size_t kNumRecords = 64;

  // Returns the number under which the call is ended.
  uint64_t begin(CallRecord record) {
    const std::lock_guard lock(mutex_);
    records_[num_calls_ % kNumRecords] = std::move(record);
    return num_calls_++;
  }

  void end(uint64_t number, int64_t time) {
    const std::lock_guard lock(mutex_);
    records_[number % kNumRecords].end = time;
  }

  // The oldest first.
  std::vector<CallRecord> latest() const {
    const std::lock_guard lock(mutex_);
    std::vector<CallRecord> found;
    const uint64_t num_kept = std::min<uint64_t>(num_calls_, kNumRecords);
    for (uint64_t k = num_calls_ - num_kept; k < num_calls_; ++k) found.push_back(records_[k % kNumRecords]);
    return found;
  }

 private:
  mutable std::mutex mutex_;
  std::array<CallRecord, kNumRecords> records_;
  uint64_t num_calls_ = 0;
};

}  // namespace hemiola::runtime
