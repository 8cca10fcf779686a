// How messages are written into slots that another core reads: through the caches or past them.
//
// To write lines that a core with other caches still holds is several times slower than to write past the
// caches; where both cores share their last cache it is the other way round for large messages. Where the ranks
// run is not told to us, and may change, so it is measured: now and then the beginning of a message is written
// through the caches and timed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/clock.h"
#include "runtime/kernels.h"

namespace hemiola::runtime {

class SlotWriting {
 public:
  // Only where every rank has a core of its own; otherwise a peer may have run on this very core.
  void set_measuring(bool measuring) { measuring_ = measuring; }

  bool streams(size_t num_bytes) const { return num_bytes < kLeastBytes || rate_ < kLeastRate; }

  // Copies a message, or a piece of one, into a slot.
  void copy_in(std::byte* slot, const std::byte* source, size_t num_bytes) {
    size_t done = 0;
    if (measuring_ && num_bytes >= kLeastBytes && num_messages_++ % kPeriod < kSamples) {
      const int64_t begin = now();
      copy(slot, source, kSampleBytes, false);
      learn(static_cast<double>(kSampleBytes) / static_cast<double>(now() - begin + 1));
      done = kSampleBytes;
    }
    copy(slot + done, source + done, num_bytes - done, streams(num_bytes));
  }

 private:
  static constexpr size_t kLeastBytes = 128 << 10;  // a queue of smaller ones stays in the reader's caches
  static constexpr size_t kSampleBytes = 16 << 10;
  static constexpr uint64_t kPeriod = 128, kSamples = 4;
  static constexpr double kLeastRate = 5;  // GB/s

  void learn(double rate) { rate_ += (rate - rate_) / 4; }

  bool measuring_ = false;
  uint64_t num_messages_ = 0;
  double rate_ = 0;
};

}  // namespace hemiola::runtime
