// How far from the sender of a connection its reader runs, and with it how slots are best written and when a core
// is best given away.
//
// Where both run on one core, or on cores that share their last cache, a message is best left in the caches. Where
// they share none, a core that writes lines which the other one holds waits for each of them, several times as long
// as writing past the caches takes. Where the ends run is not told to us, and may change: virtual machines move their
// cores about. But it can be felt: to take a line back that the reader has read takes a few nanoseconds on one core,
// some tens through a shared cache, and more than a hundred where there is none.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hemiola::runtime {

class ReaderDistance {
 public:
  // Takes in how long it took to take a line back from the reader.
  void note(int64_t nanoseconds) {
    if (nanoseconds > kInterrupted) return;
    share_of_far_ += ((nanoseconds >= kFar ? 1.0f : 0.0f) - share_of_far_) / kMemory;
    share_of_here_ += ((nanoseconds <= kHere ? 1.0f : 0.0f) - share_of_here_) / kMemory;
  }

  // On a core whose caches this one does not share.
  bool is_far() const { return share_of_far_ >= 0.5f; }
  // On this core: it can read only while the sender does not run.
  bool is_here() const { return share_of_here_ >= 0.5f; }

  // Whether a message goes past the caches. A small one does not: it is read sooner from any cache than from memory.
  bool streams(size_t num_bytes) const { return is_far() && num_bytes >= kLeastStreamed; }

 private:
  static constexpr int64_t kHere = 15, kFar = 85, kInterrupted = 1000;  // nanoseconds
  static constexpr float kMemory = 8;
  static constexpr size_t kLeastStreamed = 16 << 10;

  float share_of_far_ = 0, share_of_here_ = 0;  // of the latest notes, about kMemory of them
};

}  // namespace hemiola::runtime
