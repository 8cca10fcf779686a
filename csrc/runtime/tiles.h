// Tiles: how the shares of a call are cut into chunks and tiles, and how large its messages become. All ranks of a call
// cut alike, so that nothing here may depend on one rank alone.
//
// A share of E elements in C chunks has E / C elements in each chunk. Tiles cut every chunk alike and run through the
// plan one after another. What is left over, fewer than C elements of each share, runs as a last tile in buffers of its
// own (the remainder), padded to one element per chunk, so that any plan can take any size. Small shares that do not
// divide run in the remainder altogether.
#pragma once

#include <algorithm>
#include <cstdint>

#include "enforce.h"
#include "runtime/queue_shape.h"

namespace hemiola::runtime {

// Where the ranks of a call are: on several hosts, on one whose cores they share, or on one with a core for each.
enum class RanksOn : uint8_t {
#define RANKS_ON(name) name,
#include "runtime/ranks_on.def"
#undef RANKS_ON
};

// `ranks_per_core` are those of one host that take turns on its most crowded core.
constexpr RanksOn locate_ranks(uint32_t num_ranks, uint32_t num_local_ranks, uint32_t ranks_per_core) {
  if (num_local_ranks < num_ranks) return RanksOn::several_hosts;
  return ranks_per_core > 1 ? RanksOn::shared_cores : RanksOn::own_cores;
}

// What of a plan decides how its data is cut.
struct Cut {
  uint32_t block_chunks = 1;  // chunks of one share
  uint32_t max_count = 1;     // the largest message of any rank, in chunks
  uint32_t max_sends = 1;     // the most connections over which any rank sends
};

// What of a call decides it.
struct ShareSize {
  uint64_t elements;
  uint64_t element_bytes;
  uint32_t message_bytes = 0;  // the largest message, at most a slot; 0: as Tiles chooses
};

class Tiles {
 public:
  static constexpr uint64_t kSmallShareBytes = 16 * 1024;
  static constexpr uint64_t kLeastMessageBytes = 16 * 1024, kMostMessageBytes = 256 * 1024;
  static constexpr uint64_t kMostOnSharedCores = 512 * 1024;
  static constexpr uint64_t kQueuedBytes = 384 * 1024;

  Tiles(const Cut& cut, const ShareSize& share, uint32_t slot_bytes, RanksOn ranks_on) {
    const uint64_t size = share.element_bytes;
    ENFORCE(cut.block_chunks > 0 && cut.max_count > 0 && cut.max_sends > 0 && size > 0);
    const uint64_t limit = share.message_bytes == 0 ? chosen_message(cut, share, slot_bytes, ranks_on)
                                                    : std::min(share.message_bytes, slot_bytes);
    tile_ = std::max<uint64_t>(limit / cut.max_count / size, 1);
    if (const uint64_t line = kLine / size; line > 0 && tile_ > line) tile_ -= tile_ % line;
    ENFORCE(tile_ * cut.max_count * size <= slot_bytes, "a message of ", cut.max_count,
            " chunks does not fit in a slot of ", slot_bytes, " bytes");
    const uint64_t left_over = share.elements % cut.block_chunks;
    if (left_over == 0) {
      chunk_ = share.elements / cut.block_chunks;
    } else if (share.elements * size <= kSmallShareBytes) {
      remainder_ = (share.elements + cut.block_chunks - 1) / cut.block_chunks;
    } else {
      chunk_ = share.elements / cut.block_chunks;
      remainder_ = 1;
    }
    main_tiles_ = (chunk_ + tile_ - 1) / tile_;
    remainder_tiles_ = (remainder_ + tile_ - 1) / tile_;
  }

  // Elements of a chunk: in a whole tile, in all tiles of the data itself, and in all those of the remainder.
  uint64_t tile() const { return tile_; }
  uint64_t chunk() const { return chunk_; }
  uint64_t remainder() const { return remainder_; }

  // Tiles of the data itself come first.
  uint64_t num_main() const { return main_tiles_; }
  uint64_t num_remainder() const { return remainder_tiles_; }
  uint64_t num_tiles() const { return main_tiles_ + remainder_tiles_; }
  bool is_remainder(uint64_t number) const { return number >= main_tiles_; }

  // Elements of a chunk in a tile.
  uint64_t length(uint64_t number) const {
    return is_remainder(number) ? std::min(tile_, remainder_ - (number - main_tiles_) * tile_)
                                : std::min(tile_, chunk_ - number * tile_);
  }

  // Where every chunk has its own length, the longest decides how many tiles there are.
  void set_longest(uint64_t elements) {
    chunk_ = remainder_ = remainder_tiles_ = 0;
    main_tiles_ = std::max<uint64_t>((elements + tile_ - 1) / tile_, 1);
  }

 private:
  // Messages are smaller where a rank sends over many connections, so that what lies in all queues together stays
  // small. Over one connection on one host they are larger. Ranks that share a core then change places less often.
  // Where each has its own core, what is read a whole slot later has left the caches of the core that wrote it, and is
  // found sooner; a chunk still has two messages at least.
  static uint64_t chosen_message(const Cut& cut, const ShareSize& share, uint64_t slot_bytes, RanksOn ranks_on) {
    const uint64_t chunk_bytes = share.elements / cut.block_chunks * share.element_bytes;
    if (cut.max_sends == 1 && ranks_on == RanksOn::own_cores && chunk_bytes >= 4 * kMostMessageBytes)
      return std::min(slot_bytes, chunk_bytes / 2 / kLine * kLine);
    if (cut.max_sends == 1 && ranks_on == RanksOn::shared_cores) return std::min(slot_bytes, kMostOnSharedCores);
    const uint64_t queued = kQueuedBytes / cut.max_sends / kLine * kLine;
    return std::min(slot_bytes, std::clamp(queued, kLeastMessageBytes, kMostMessageBytes));
  }

  uint64_t tile_ = 0, chunk_ = 0, remainder_ = 0;
  uint64_t main_tiles_ = 0, remainder_tiles_ = 0;
};

}  // namespace hemiola::runtime
