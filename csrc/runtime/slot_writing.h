// How messages are written into slots that another core reads: through the caches or past them.
//
// To write lines that a core with other caches still holds is several times slower than to write past the
// caches; where both cores share their last cache it is the other way round for large messages. Where the ranks
// run is not told to us, and may change, so it is measured: now and then the beginning of a message is written
// through the caches and timed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "runtime/clock.h"
#include "runtime/kernels.h"

namespace hemiola::runtime {

class SlotWriting {
 public:
  // For a run in which a rank moves so many bytes. It pays to measure where one thread writes to few queues.
  void begin_run(uint64_t num_bytes, bool measuring) {
    // What is smaller than a core's own cache is still there when its slot is written again.
    measuring_ = measuring && num_bytes >= kLargeBytes;
  }

  bool streams() const { return !measuring_ || cost_ > kMostCost; }

  // Copies a message, or a piece of one, into a slot.
  void copy_in(std::byte* slot, const std::byte* source, size_t num_bytes) {
    size_t done = 0;
    if (measuring_ && num_bytes >= 2 * kSampleBytes && num_messages_++ % kPeriod < kSamples) {
      const int64_t begin = now();
      copy(slot, source, kSampleBytes, false);
      learn(static_cast<double>(now() - begin) / kSampleBytes);
      done = kSampleBytes;
    }
    copy(slot + done, source + done, num_bytes - done, streams());
  }

 private:
  static constexpr uint64_t kLargeBytes = 1 << 20;
  static constexpr size_t kSampleBytes = 16 << 10;
  static constexpr uint64_t kPeriod = 96, kSamples = 3;
  static constexpr double kMostCost = 0.2;  // nanoseconds per byte: 5 GB/s

  // The median of a few neighbouring samples: one that was interrupted says nothing.
  void learn(double cost) {
    samples_[num_samples_++ % kSamples] = cost;
    if (num_samples_ % kSamples != 0) return;
    std::sort(samples_, samples_ + kSamples);
    cost_ = samples_[kSamples / 2];
  }

  bool measuring_ = false;
  uint64_t num_messages_ = 0, num_samples_ = 0;
  double samples_[kSamples] = {};
  double cost_ = 1;  // of writing through the caches, in nanoseconds per byte
};

}  // namespace hemiola::runtime
