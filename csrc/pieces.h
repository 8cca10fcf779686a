// Pieces: runs of chunks that no row of a table cuts. What happens to one chunk of a piece happens to all of
// it, so passes keep one entry per piece instead of one per chunk: their time follows the number of rows, not
// the number of chunks that a row moves.
#pragma once

#include <algorithm>
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
    if (dense_) table_.assign(size_t{num_chunks} + 1, 0);
  }

  void cut(uint32_t chunk, uint32_t count) {
    if (dense_) {
      table_[chunk] = table_[chunk + count] = 1;
    } else {
      borders_.push_back(chunk);
      borders_.push_back(chunk + count);
    }
  }

  // No more cuts; from here on chunks can be looked up.
  void finish() {
    if (dense_) {
      table_[0] = 1;
      for (uint32_t chunk = 0; chunk <= num_chunks_; ++chunk) {
        if (table_[chunk] != 0) borders_.push_back(chunk);
        table_[chunk] = static_cast<uint32_t>(borders_.size()) - 1;
      }
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
    if (dense_) return table_[chunk];
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
  bool dense_;
  uint32_t num_chunks_;
  std::vector<uint32_t> table_;    // dense: chunk -> piece
  std::vector<uint32_t> borders_;  // where pieces begin, and the end
};

}  // namespace hemiola
