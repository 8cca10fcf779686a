// How the messages of a connection are written into slots that another core reads: through the caches or past them.
//
// To write lines that a core with other caches still holds is several times slower than to write past the
// caches; where both cores share their last cache, or the ends share a core, it is the other way round. Where the
// ends of a connection run is not told to us, and may change, so it is measured: now and then the beginning of a
// message is written through the caches and timed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "runtime/clock.h"

namespace hemiola::runtime {

class SlotWriting {
 public:
  bool streams() const { return cost_ > kMostCost; }

  // Writes a message that is copied, or a piece of it, with write(begin, num_bytes, stream); measures it when it
  // is time to.
  template <typename Write>
  void write_copy(size_t num_bytes, Write write) {
    size_t done = 0;
    if (num_bytes >= kLeastBytes && num_messages_++ % kPeriod < kSamples) {
      done = std::min(num_bytes, kMostBytes);
      const int64_t begin = now();
      write(size_t{0}, done, false);
      learn(static_cast<double>(now() - begin) / static_cast<double>(done));
    }
    if (done < num_bytes) write(done, num_bytes - done, streams());
  }

 private:
  static constexpr size_t kLeastBytes = 8 << 10, kMostBytes = 16 << 10;  // of a sample
  static constexpr uint64_t kPeriod = 96, kSamples = 3;
  static constexpr double kMostCost = 0.2;  // nanoseconds per byte: 5 GB/s

  // The median of a few neighbouring samples: one that was interrupted says nothing.
  void learn(double cost) {
    samples_[num_samples_++ % kSamples] = cost;
    if (num_samples_ % kSamples != 0) return;
    std::sort(samples_, samples_ + kSamples);
    cost_ = samples_[kSamples / 2];
  }

  uint64_t num_messages_ = 0, num_samples_ = 0;
  double samples_[kSamples] = {};
  double cost_ = 1;  // of writing through the caches, in nanoseconds per byte
};

}  // namespace hemiola::runtime
