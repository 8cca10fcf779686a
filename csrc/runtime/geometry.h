// Where the bytes of a step lie: chunks and tiles (tiles.h) in the buffers of one rank.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/call.h"
#include "runtime/part.h"
#include "runtime/tiles.h"

namespace hemiola::runtime {

class Geometry {
 public:
  Geometry(const Part& part, const CallShape& call, uint32_t slot_bytes, RanksOn ranks_on)
      : element_bytes_(element_size(call.type)),
        share_(call.elements),
        block_chunks_(part.shape.block_chunks),
        tiles_(part.cut(), {share_, element_bytes_, call.message_bytes}, slot_bytes, ranks_on) {
    if (!has_lengths(call)) return;
    input_ = offsets(call.input_lengths);
    output_ = offsets(call.output_lengths);
    uint64_t longest = 0;
    for (const uint64_t length : call.input_lengths) longest = std::max(longest, length);
    for (const uint64_t length : call.output_lengths) longest = std::max(longest, length);
    lengths_[0] = &call.input_lengths;
    lengths_[1] = &call.output_lengths;
    tiles_.set_longest(longest);
  }

  static bool has_lengths(const CallShape& call) { return !call.input_lengths.empty() || !call.output_lengths.empty(); }

  uint64_t element_bytes() const { return element_bytes_; }
  uint64_t num_tiles() const { return tiles_.num_tiles(); }
  bool is_remainder(uint64_t tile) const { return tiles_.is_remainder(tile); }
  uint64_t chunk() const { return tiles_.chunk(); }
  uint64_t remainder() const { return tiles_.remainder(); }
  // Whether a chunk's neighbours follow it in memory without a gap in this tile.
  bool is_contiguous(uint64_t tile) const {
    if (lengths_[0] != nullptr) return false;
    return is_remainder(tile) ? tiles_.num_remainder() == 1 : tiles_.num_main() == 1 && remainder() == 0;
  }

  // Elements of a chunk in a tile.
  uint64_t length(uint32_t buffer, uint64_t index, uint64_t tile) const {
    if (lengths_[0] == nullptr) return tiles_.length(tile);
    const uint64_t whole = (*lengths_[buffer])[index], begin = tile * tiles_.tile();
    return whole <= begin ? 0 : std::min(whole - begin, tiles_.tile());
  }

  // Elements from the start of the buffer (of its remainder, for a tile of the remainder) to a chunk's part in a tile.
  uint64_t offset(uint32_t buffer, uint64_t index, uint64_t tile) const {
    const uint64_t begin = tile * tiles_.tile();
    if (lengths_[0] != nullptr) return (buffer == 0 ? input_ : output_)[index] + begin;
    if (is_remainder(tile)) return index * remainder() + (tile - tiles_.num_main()) * tiles_.tile();
    if (buffer == kScratch || remainder() == 0) return index * chunk() + begin;
    return index / block_chunks_ * share_ + index % block_chunks_ * chunk() + begin;
  }

  // Copies the remainder of a buffer from where it lies to its padded place, or back.
  void copy_remainder(std::byte* buffer, std::byte* padded, uint64_t num_chunks, bool back) const {
    const uint64_t from = block_chunks_ * chunk();
    const uint64_t bytes = (share_ - from) * element_bytes_;
    for (uint64_t block = 0; block < num_chunks / block_chunks_; ++block) {
      std::byte* place = buffer + (block * share_ + from) * element_bytes_;
      std::byte* copy = padded + block * block_chunks_ * remainder() * element_bytes_;
      if (back)
        std::copy_n(copy, bytes, place);
      else
        std::copy_n(place, bytes, copy);
    }
  }

 private:
  static std::vector<uint64_t> offsets(const std::vector<uint64_t>& lengths) {
    std::vector<uint64_t> sums(lengths.size());
    uint64_t sum = 0;
    for (size_t k = 0; k < lengths.size(); ++k) {
      sums[k] = sum;
      sum += lengths[k];
    }
    return sums;
  }

  uint64_t element_bytes_, share_, block_chunks_;
  Tiles tiles_;
  std::vector<uint64_t> input_, output_;
  const std::vector<uint64_t>* lengths_[3] = {};  // by buffer; of scratch there are none
};

}  // namespace hemiola::runtime
