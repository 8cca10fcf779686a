// How the messages of a connection are written into slots that another core reads: through the caches or past them.
//
// To write lines that a core with other caches still holds is several times slower than to write past the
// caches; where both cores share their last cache, or the ends share a core, it is the other way round. Where the
// ends of a connection run is not told to us, and may change, so it is measured: now and then the beginning of a
// large message is written both ways and timed. Small messages go through the caches: whoever waits for one reads
// it sooner than memory could give it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "runtime/clock.h"

namespace hemiola::runtime {

class SlotWriting {
 public:
  // Whether a message, or a piece of one, goes past the caches.
  bool streams(size_t num_bytes) const { return num_bytes >= kLeastBytes && ratio_ > kMostRatio; }

  // Writes with put(begin, num_bytes, stream) for one piece after another, whole elements, and measures when it is
  // time to.
  template <typename Put>
  void write(size_t num_bytes, Put put) {
    size_t done = 0;
    if (num_bytes >= kLeastBytes && (num_messages_++ + kPeriod - kFirst) % kPeriod < kSamples) {
      const int64_t begin = now();
      put(size_t{0}, kSampleBytes, false);
      const int64_t middle = now();
      put(kSampleBytes, kSampleBytes, true);
      learn(static_cast<double>(middle - begin) / static_cast<double>(std::max<int64_t>(now() - middle, 1)));
      done = 2 * kSampleBytes;
    }
    if (done < num_bytes) put(done, num_bytes - done, streams(num_bytes));
  }

 private:
  static constexpr size_t kLeastBytes = 48 << 10, kSampleBytes = 16 << 10;
  static constexpr uint64_t kPeriod = 96, kSamples = 3;
  static constexpr uint64_t kFirst = 8;  // until every slot has its memory
  static constexpr double kMostRatio = 1.3;

  // The median of a few neighbouring samples: one that was interrupted says nothing.
  void learn(double ratio) {
    samples_[num_samples_++ % kSamples] = ratio;
    if (num_samples_ % kSamples != 0) return;
    std::sort(samples_, samples_ + kSamples);
    ratio_ = samples_[kSamples / 2];
  }

  uint64_t num_messages_ = 0, num_samples_ = 0;
  double samples_[kSamples] = {};
  double ratio_ = 0;  // of the time to write through the caches to the time to write past them
};

}  // namespace hemiola::runtime
