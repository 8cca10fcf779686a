// The compiler's passes: each takes a table and returns a table. Operations and instructions stand in an
// order in which they may run one after another; every pass keeps that true.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layout.h"
#include "tables.h"

namespace hemiola {

using Operations = std::span<const Operation>;
using Instructions = std::span<const Instruction>;

// Sorts operations by their depth: how many operations must come before, one after another.
std::vector<Operation> order_operations(Operations operations, const Layout& layout);

// A remote copy becomes s + r, a remote reduction s + rrc, a local one cpy or re.
std::vector<Instruction> lower(Operations operations);

// Reads of a copy become reads of its original while that is unchanged; copies that nobody reads go.
// `kept` are the ranges, (first chunk, count) each, that must hold their value at the end.
std::vector<Instruction> forward_copies(Instructions instructions, const Layout& layout,
                                        std::span<const uint32_t> kept);

// r + s becomes rcs, rrc + s becomes rrcs, or rrs where nobody reads what rrcs would store. Messages of more
// than `slots` chunks stay apart.
struct Fused {
  std::vector<Instruction> instructions;
  uint32_t left_apart = 0;  // pairs that only the number of slots kept from being fused
};
Fused fuse(Instructions instructions, const Layout& layout, std::span<const uint32_t> kept, uint32_t slots);

// A threadblock has one peer on each side, so on each channel of a rank a receive peer goes with one send
// peer: the most frequent pairs stay, other fused instructions are split again.
std::vector<Instruction> pair_connections(Instructions instructions);

// Splits every fused instruction; what pair_connections does for those that do not fit.
std::vector<Instruction> unfuse(Instructions instructions);

struct ThreadblockConflict {
  uint32_t rank = kNone;  // kNone: there is none
  int32_t threadblock = 0;
  uint32_t line = 0, other_line = 0;
  const char* what = "";
};
struct Threadblocks {
  std::vector<Instruction> instructions;
  ThreadblockConflict conflict;
  uint32_t most = 0;              // threadblocks of the rank that has most
  uint32_t most_per_channel = 0;  // of one channel of a rank
};
// Gives every instruction a threadblock, numbered per rank. `merge` lets a connection that only sends and
// one that only receives share a threadblock.
Threadblocks assign_threadblocks(Instructions instructions, const Layout& layout, bool merge);

// Orders the instructions by running them with `slots` slots per connection, so that the order itself
// proves that the plan cannot deadlock. Fused instructions that would stand in the way are split.
std::vector<Instruction> order_steps(Instructions instructions, const Layout& layout, uint32_t num_operations,
                                     uint32_t slots);

// Edges between instructions of one rank: row `i` waits for rows `on[first[i]] .. on[first[i + 1] - 1]`.
struct Waits {
  std::vector<uint32_t> first, on;
};
// Every instruction waits for those of other threadblocks that it conflicts with.
Waits insert_dependencies(Instructions instructions, const Layout& layout);
// Leaves out what already follows from the other waits and from the order in threadblocks.
Waits drop_redundant_dependencies(Instructions instructions, std::span<const uint32_t> first,
                                  std::span<const uint32_t> on);

struct PlanTables {
  std::vector<uint32_t> first_threadblock;  // per rank
  std::vector<Threadblock> threadblocks;
  std::vector<Step> steps;
  std::vector<Dependency> dependencies;
};
PlanTables emit(Instructions instructions, uint32_t num_ranks, std::span<const uint32_t> first,
                std::span<const uint32_t> on);

// Whether an instruction both receives and sends.
inline bool is_fused(const Instruction& i) { return traits(i.opcode).receives && traits(i.opcode).sends; }

// The two instructions that a fused one stands for.
Instruction receiving_half(const Instruction& fused);
Instruction sending_half(const Instruction& fused);

}  // namespace hemiola
