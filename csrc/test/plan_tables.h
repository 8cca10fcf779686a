// Plans written out by hand: threadblocks with their steps, as the tables that the runtime reads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan_view.h"
#include "runtime/part.h"
#include "tables.h"

namespace hemiola::test {

inline constexpr uint8_t kInput = 0, kOutput = 1, kScratchBuffer = 2;

struct Place {
  uint8_t buffer = kInput;
  uint32_t index = 0;
};

struct HandStep {
  Opcode opcode;
  Place source{}, target{};
  uint32_t count = 1;
  std::vector<Dependency> waits{};
};

struct HandBlock {
  uint32_t rank;
  int32_t to = kNoPeer, from = kNoPeer;
  uint32_t channel = 0;
  std::vector<HandStep> steps{};
};

// Chunks of a rank's input, output and scratch, as stored.
struct Chunks {
  uint32_t input, output, scratch;
};

class Tables {
 public:
  // `blocks` are in the order of ranks.
  Tables(const std::vector<Chunks>& chunks, const std::vector<HandBlock>& blocks) {
    for (const Chunks& sizes : chunks) {
      const auto rank = static_cast<uint32_t>(ranks_.size());
      const auto before = std::ranges::count_if(blocks, [&](const HandBlock& block) { return block.rank < rank; });
      ranks_.push_back({sizes.input, sizes.output, sizes.scratch, static_cast<uint32_t>(before)});
    }
    for (const HandBlock& block : blocks) {
      threadblocks_.push_back({block.rank, block.to, block.from, block.channel, static_cast<uint32_t>(steps_.size())});
      for (const HandStep& step : block.steps) {
        steps_.push_back({step.opcode, step.source.buffer, step.target.buffer, 0, step.source.index, step.target.index,
                          step.count, static_cast<uint32_t>(dependencies_.size()), 0});
        dependencies_.insert(dependencies_.end(), step.waits.begin(), step.waits.end());
      }
    }
  }

  PlanView view() const { return {ranks_, threadblocks_, steps_, dependencies_}; }
  uint32_t num_ranks() const { return static_cast<uint32_t>(ranks_.size()); }

 private:
  std::vector<Rank> ranks_;
  std::vector<Threadblock> threadblocks_;
  std::vector<Step> steps_;
  std::vector<Dependency> dependencies_;
};

// An all-reduce in place round a ring, one threadblock a rank and instance: chunk c starts on rank c. Every
// instance has chunks, a channel and a threadblock of its own.
inline Tables ring_all_reduce(uint32_t num_ranks, uint32_t count, uint32_t instances) {
  const uint32_t n = num_ranks;
  std::vector<HandBlock> blocks;
  for (uint32_t rank = 0; rank < n; ++rank)
    for (uint32_t instance = 0; instance < instances; ++instance) {
      const auto place = [&](uint32_t hop) {
        return Place{kInput, ((rank + 2 * n - hop) % n * instances + instance) * count};
      };
      HandBlock block{rank, static_cast<int32_t>((rank + 1) % n), static_cast<int32_t>((rank + n - 1) % n), instance};
      block.steps.push_back({Opcode::s, place(0), {}, count});
      for (uint32_t hop = 1; hop < 2 * n - 1; ++hop) {
        const bool last = hop == 2 * n - 2;
        const Opcode reduces = last ? Opcode::rrc : hop < n - 1 ? Opcode::rrs : Opcode::rrcs;
        const Opcode moves = last ? Opcode::r : Opcode::rcs;
        block.steps.push_back({hop < n ? reduces : moves, place(hop), place(hop), count});
      }
      blocks.push_back(block);
    }
  return {std::vector<Chunks>(n, Chunks{n * instances * count, 0, 0}), blocks};
}

// An all-reduce of one chunk out of place: everybody sends to everybody, receives to scratch and adds up in the
// order of ranks. Two threadblocks a peer and one for the sum, so that workers wait for each other.
inline Tables all_pairs_all_reduce(uint32_t num_ranks) {
  std::vector<HandBlock> blocks;
  for (uint32_t rank = 0; rank < num_ranks; ++rank) {
    HandBlock sum{rank, kNoPeer, kNoPeer, 0, {{Opcode::cpy, {kInput, 0}, {kOutput, 0}}}};
    uint32_t number = 0;
    for (uint32_t peer = 0; peer < num_ranks; ++peer) {
      if (peer == rank) continue;
      blocks.push_back({rank, static_cast<int32_t>(peer), kNoPeer, 0, {{Opcode::s, {kInput, 0}}}});
      blocks.push_back({rank, kNoPeer, static_cast<int32_t>(peer), 0, {{Opcode::r, {}, {kScratchBuffer, peer}}}});
      sum.steps.push_back({Opcode::re, {kScratchBuffer, peer}, {kOutput, 0}, 1, {{2 * number + 1, 0}}});
      ++number;
    }
    blocks.push_back(sum);
  }
  return {std::vector<Chunks>(num_ranks, Chunks{1, 1, num_ranks}), blocks};
}

// An all-gather in place round a ring: the input is the rank's own chunks of the output.
inline Tables ring_all_gather(uint32_t num_ranks, uint32_t chunks) {
  const uint32_t n = num_ranks;
  std::vector<HandBlock> blocks;
  for (uint32_t rank = 0; rank < n; ++rank) {
    HandBlock block{rank, static_cast<int32_t>((rank + 1) % n), static_cast<int32_t>((rank + n - 1) % n)};
    block.steps.push_back({Opcode::s, {kInput, 0}, {}, chunks});
    for (uint32_t hop = 1; hop < n; ++hop) {
      const Place place{kOutput, (rank + n - hop) % n * chunks};
      block.steps.push_back({hop < n - 1 ? Opcode::rcs : Opcode::r, {}, place, chunks});
    }
    blocks.push_back(block);
  }
  return {std::vector<Chunks>(n, Chunks{0, n * chunks, 0}), blocks};
}

// An all-to-all, each share one chunk that moves on its own.
inline Tables direct_all_to_all(uint32_t num_ranks) {
  std::vector<HandBlock> blocks;
  for (uint32_t rank = 0; rank < num_ranks; ++rank)
    for (uint32_t peer = 0; peer < num_ranks; ++peer) {
      const auto other = static_cast<int32_t>(peer);
      if (peer == rank)
        blocks.push_back({rank, kNoPeer, kNoPeer, 0, {{Opcode::cpy, {kInput, rank}, {kOutput, rank}}}});
      else
        blocks.push_back({rank, other, other, 0, {{Opcode::s, {kInput, peer}}, {Opcode::r, {}, {kOutput, peer}}}});
    }
  return {std::vector<Chunks>(num_ranks, Chunks{num_ranks, num_ranks, 0}), blocks};
}

}  // namespace hemiola::test
