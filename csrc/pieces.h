// Pieces: runs of chunks that no row of a table cuts. What happens to one chunk of a piece happens to all of
// it, so passes keep one entry per piece instead of one per chunk: their time follows the number of rows, not
// the number of chunks that a row moves.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace hemiola {

struct Range {
  uint32_t first, end;
};

class Pieces {
 public:
  // `num_chunks` is the size of the layout, `expected` about how many ranges will come.
  Pieces(uint32_t num_chunks, size_t expected) : dense_(num_chunks <= 8 * expected + 4096), num_chunks_(num_chunks) {
    if (dense_) begins_.assign(size_t{num_chunks} / 64 + 1, 0);
  }

  void cut(uint32_t chunk, uint32_t count) {
    if (dense_) {
      mark(chunk);
      mark(chunk + count);
    } else {
      borders_.push_back(chunk);
      borders_.push_back(chunk + count);
    }
  }

  // No more cuts; from here on chunks can be looked up.
  void finish() {
    if (dense_) {
      mark(0);
      pieces_before_.reserve(begins_.size() + 1);
      uint32_t total = 0;
      for (uint64_t word : begins_) {
        pieces_before_.push_back(total);
        total += count_ones(word);
      }
      borders_.reserve(size_t{total} + 1);
      for (size_t at = 0; at < begins_.size(); ++at)
        for (uint64_t word = begins_[at]; word != 0; word &= word - 1)
          borders_.push_back(static_cast<uint32_t>(64 * at) + static_cast<uint32_t>(std::countr_zero(word)));
    } else {
      borders_.push_back(0);
      std::ranges::sort(borders_);
      borders_.erase(std::unique(borders_.begin(), borders_.end()), borders_.end());
    }
    if (borders_.back() != num_chunks_) borders_.push_back(num_chunks_);
  }

  uint32_t size() const { return static_cast<uint32_t>(borders_.size()) - 1; }
  uint32_t start(uint32_t piece) const { return borders_[piece]; }
  uint32_t length(uint32_t piece) const { return borders_[piece + 1] - borders_[piece]; }
  uint32_t of(uint32_t chunk) const {
    if (dense_) {
      const uint64_t up_to_it = begins_[chunk / 64] << (63 - chunk % 64);
      return pieces_before_[chunk / 64] + count_ones(up_to_it) - 1;
    }
    return static_cast<uint32_t>(std::ranges::upper_bound(borders_, chunk) - borders_.begin()) - 1;
  }
  // The pieces of a range that was cut out before.
  Range range(uint32_t chunk, uint32_t count) const {
    if (count == 1) {
      const uint32_t piece = of(chunk);
      return {piece, piece + 1};
    }
    return {of(chunk), of(chunk + count)};
  }

 private:
  // Processors of before 2008 have no instruction for this, so without it the compiler would call a function.
  static uint32_t count_ones(uint64_t x) {
    x -= x >> 1 & 0x5555555555555555;
    x = (x & 0x3333333333333333) + (x >> 2 & 0x3333333333333333);
    return static_cast<uint32_t>(((x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f) * 0x0101010101010101 >> 56);
  }
  void mark(uint32_t chunk) { begins_[chunk / 64] |= uint64_t{1} << chunk % 64; }

  bool dense_;
  uint32_t num_chunks_;
  // Dense: whether a piece begins at a chunk, a bit each, and how many do before each word. It is small enough to stay
  // in the cache, where a number per chunk would not.
  std::vector<uint64_t> begins_;
  std::vector<uint32_t> pieces_before_;
  std::vector<uint32_t> borders_;  // where pieces begin, and the end
};

}  // namespace hemiola
