// Where the bytes of a step lie: chunks, tiles, and the rest that does not divide.
//
// A share of E elements in C chunks has E / C elements in each chunk. Tiles cut every chunk alike and run through
// the plan one after another. What is left over, fewer than C elements of each share, runs as a last tile in
// buffers of its own ("the rest"), padded to one element per chunk, so that any plan can take any size. Small
// shares that do not divide run in the rest altogether.
#pragma once

#include <algorithm>
#include <cstdint>

#include "enforce.h"
#include "runtime/call.h"
#include "runtime/part.h"

namespace hemiola::runtime {

// Where the ranks of a call are: on several hosts, on one whose cores they share, or on one with a core for each.
enum class RanksOn { several_hosts, shared_cores, own_cores };

class Geometry {
 public:
  static constexpr uint64_t kSmallShareBytes = 16 * 1024;
  static constexpr uint64_t kLeastMessageBytes = 16 * 1024, kMostMessageBytes = 256 * 1024;
  static constexpr uint64_t kMostOnSharedCores = 512 * 1024;
  static constexpr uint64_t kQueuedBytes = 384 * 1024;

  Geometry(const Part& part, const CallShape& call, uint32_t slot_bytes, RanksOn ranks_on)
      : element_bytes_(element_size(call.type)), share_(call.elements), block_chunks_(part.shape.block_chunks) {
    const uint64_t limit = call.message_bytes == 0 ? chosen_message(part, slot_bytes, ranks_on)
                                                   : std::min(call.message_bytes, slot_bytes);
    tile_ = std::max<uint64_t>(limit / part.max_count / element_bytes_, 1);
    if (const uint64_t line = kLine / element_bytes_; tile_ > line) tile_ -= tile_ % line;
    ENFORCE(tile_ * part.max_count * element_bytes_ <= slot_bytes, "a message of ", part.max_count,
            " chunks does not fit in a slot of ", slot_bytes, " bytes");
    if (has_lengths(call)) {
      input_ = offsets(call.input_lengths);
      output_ = offsets(call.output_lengths);
      uint64_t longest = 0;
      for (const uint64_t length : call.input_lengths) longest = std::max(longest, length);
      for (const uint64_t length : call.output_lengths) longest = std::max(longest, length);
      lengths_[0] = &call.input_lengths;
      lengths_[1] = &call.output_lengths;
      main_tiles_ = std::max<uint64_t>((longest + tile_ - 1) / tile_, 1);
      return;
    }
    const uint64_t left_over = share_ % block_chunks_;
    if (left_over == 0) {
      chunk_ = share_ / block_chunks_;
    } else if (share_ * element_bytes_ <= kSmallShareBytes) {
      rest_ = (share_ + block_chunks_ - 1) / block_chunks_;
    } else {
      chunk_ = share_ / block_chunks_;
      rest_ = 1;
    }
    main_tiles_ = (chunk_ + tile_ - 1) / tile_;
    rest_tiles_ = (rest_ + tile_ - 1) / tile_;
  }

  static bool has_lengths(const CallShape& call) { return !call.input_lengths.empty() || !call.output_lengths.empty(); }

  uint64_t element_bytes() const { return element_bytes_; }
  uint64_t num_tiles() const { return main_tiles_ + rest_tiles_; }
  bool is_rest(uint64_t tile) const { return tile >= main_tiles_; }
  uint64_t chunk() const { return chunk_; }
  uint64_t rest() const { return rest_; }
  // Whether a chunk's neighbours follow it in memory without a gap in this tile.
  bool is_contiguous(uint64_t tile) const {
    if (lengths_[0] != nullptr) return false;
    return is_rest(tile) ? rest_tiles_ == 1 : main_tiles_ == 1 && rest_ == 0;
  }

  // Elements of a chunk in a tile.
  uint64_t length(uint32_t buffer, uint64_t index, uint64_t tile) const {
    if (lengths_[0] != nullptr) {
      const uint64_t whole = (*lengths_[buffer])[index], begin = tile * tile_;
      return whole <= begin ? 0 : std::min(whole - begin, tile_);
    }
    return is_rest(tile) ? std::min(tile_, rest_ - (tile - main_tiles_) * tile_)
                         : std::min(tile_, chunk_ - tile * tile_);
  }

  // Elements from the start of the buffer (of its rest, for a tile of the rest) to a chunk's part in a tile.
  uint64_t offset(uint32_t buffer, uint64_t index, uint64_t tile) const {
    if (lengths_[0] != nullptr) return (buffer == 0 ? input_ : output_)[index] + tile * tile_;
    if (is_rest(tile)) return index * rest_ + (tile - main_tiles_) * tile_;
    if (buffer == kScratch || rest_ == 0) return index * chunk_ + tile * tile_;
    return index / block_chunks_ * share_ + index % block_chunks_ * chunk_ + tile * tile_;
  }

  // Copies the rest of a buffer from where it lies to its padded place, or back.
  void copy_rest(std::byte* buffer, std::byte* padded, uint64_t num_chunks, bool back) const {
    const uint64_t from = block_chunks_ * chunk_;
    const uint64_t bytes = (share_ - from) * element_bytes_;
    for (uint64_t block = 0; block < num_chunks / block_chunks_; ++block) {
      std::byte* place = buffer + (block * share_ + from) * element_bytes_;
      std::byte* copy = padded + block * block_chunks_ * rest_ * element_bytes_;
      if (back)
        std::copy_n(copy, bytes, place);
      else
        std::copy_n(place, bytes, copy);
    }
  }

 private:
  // Smaller messages where a rank sends over many connections, so that what lies in all queues together stays small.
  // Over one connection on one host larger ones: ranks that share a core change places less often; where each has its
  // own, what is read a whole slot later has left the caches of the core that wrote it, and is found sooner (at least
  // two messages a chunk). The same on all ranks.
  uint64_t chosen_message(const Part& part, uint64_t slot_bytes, RanksOn ranks_on) const {
    const uint64_t chunk_bytes = share_ / block_chunks_ * element_bytes_;
    if (part.max_sends == 1 && ranks_on == RanksOn::own_cores && chunk_bytes >= 4 * kMostMessageBytes)
      return std::min(slot_bytes, chunk_bytes / 2 / kLine * kLine);
    if (part.max_sends == 1 && ranks_on == RanksOn::shared_cores) return std::min(slot_bytes, kMostOnSharedCores);
    const uint64_t queued = kQueuedBytes / part.max_sends / kLine * kLine;
    return std::min(slot_bytes, std::clamp(queued, kLeastMessageBytes, kMostMessageBytes));
  }

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
  uint64_t chunk_ = 0, rest_ = 0, tile_ = 0;
  uint64_t main_tiles_ = 0, rest_tiles_ = 0;
  std::vector<uint64_t> input_, output_;
  const std::vector<uint64_t>* lengths_[3] = {};  // by buffer; of scratch there are none
};

}  // namespace hemiola::runtime
