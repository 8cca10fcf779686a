// Memory: what every chunk of every buffer holds, as segments of chunks that hold neighbouring values.
#pragma once

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
  struct Run {
    uint32_t first;
    Value value;
    uint32_t written_at;
  };
  size_t find(const std::vector<Run>& runs, uint32_t chunk) const;

  std::vector<uint32_t> sizes_;
  std::vector<std::vector<Run>> buffers_;
  std::vector<Run> fresh_;
};

}  // namespace hemiola
