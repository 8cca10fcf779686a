// Memory: what every chunk of every buffer holds, as segments of chunks that hold neighbouring values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "values.h"

namespace hemiola {

// `count` chunks, of which the k-th holds {value.expression, value.base + k}; written at the same moment.
struct Segment {
  uint32_t count;
  Value value;
  uint32_t written_at;

  Value at(uint32_t k) const { return value == kGarbage ? kGarbage : Value{value.expression, value.base + k}; }
  bool goes_on_as(const Segment& next) const { return next.written_at == written_at && next.value == at(count); }
};
using Segments = std::vector<Segment>;

// Adds a segment behind others, merged with the last where it goes on.
void append(Segments& segments, Segment segment);

// Calls visit(value of a, value of b, count) for two ranges of equal length, cut where either is; stops when it
// says false.
template <typename Visit>
bool walk_both(const Segments& a, const Segments& b, Visit visit) {
  size_t i = 0, j = 0;
  uint32_t in_a = 0, in_b = 0;  // chunks of a[i] and b[j] that are done
  while (i < a.size()) {
    const uint32_t count = std::min(a[i].count - in_a, b[j].count - in_b);
    if (!visit(a[i].at(in_a), b[j].at(in_b), count)) return false;
    in_a += count;
    in_b += count;
    if (in_a == a[i].count) ++i, in_a = 0;
    if (in_b == b[j].count) ++j, in_b = 0;
  }
  return true;
}

// The sums of two ranges of equal length, chunk by chunk.
void add_ranges(Values& values, const Segments& a, const Segments& b, Segments& sums);

class Memory {
 public:
  // `sizes` are the numbers of chunks of the buffers.
  explicit Memory(std::span<const uint32_t> sizes);
  uint32_t size(size_t buffer) const { return sizes_[buffer]; }
  void resize(size_t buffer, uint32_t size);
  void read(size_t buffer, uint32_t first, uint32_t count, Segments& found) const;
  // Replaces the chunks from `first` on; `contents` lie one after another.
  void write(size_t buffer, uint32_t first, const Segments& contents, uint32_t written_at);
  size_t add_buffer();

 private:
  struct Stored {
    uint32_t first;  // up to the next one's
    Value value;
    uint32_t written_at;

    Value at(uint32_t chunk) const { return Segment{1, value, 0}.at(chunk - first); }
  };
  // A buffer is a list of short lists, so that a change in the middle moves little; none of them is empty.
  using Block = std::vector<Stored>;
  struct Position {
    size_t block, entry;
    auto operator<=>(const Position&) const = default;
  };
  static constexpr size_t kLongestBlock = 512;

  Position find(const std::vector<Block>& blocks, uint32_t chunk) const;
  static Position next(const std::vector<Block>& blocks, Position at);
  void replace(std::vector<Block>& blocks, Position from, Position stop);

  std::vector<uint32_t> sizes_;
  std::vector<std::vector<Block>> buffers_;
  Block fresh_;  // what `replace` puts in place of the old entries
};

}  // namespace hemiola
