// The proof of a plan: do its connections match, does it end, what does it compute, is every conflict ordered.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "layout.h"
#include "memory.h"
#include "plan_view.h"
#include "tables.h"
#include "values.h"

namespace hemiola {

// A plan, and the memory that its steps name.
struct PlacedPlan : PlanView {
  const Layout* layout;  // of the memory, in which aliased buffers are one
  uint32_t alias_source, alias_target;
  std::span<const int32_t> alias_offset;  // per rank, negative for none

  // The memory behind a name: its buffer, numbered 3 per rank, and the index there.
  struct Place {
    uint32_t buffer, index;
  };
  Place place(uint32_t rank, uint32_t buffer, uint32_t index) const {
    if (buffer == alias_source && alias_offset[rank] >= 0)
      return {3 * rank + alias_target, index + static_cast<uint32_t>(alias_offset[rank])};
    return {3 * rank + buffer, index};
  }
  Place source(uint32_t rank, const Step& s) const { return place(rank, s.src_buffer, s.src_index); }
  Place destination(uint32_t rank, const Step& s) const { return place(rank, s.dst_buffer, s.dst_index); }
  uint32_t chunk(Place p) const { return layout->at(p.buffer / 3, p.buffer % 3, p.index); }
};

enum class ConnectionFaultKind : uint32_t {
#define CONNECTION_FAULT(name) name,
#include "proof/connection_faults.def"
#undef CONNECTION_FAULT
};
struct ConnectionFault {
  ConnectionFaultKind kind;
  uint32_t block, other_block, step, other_step;  // rows of the plan; kNone where there is none
};

// Connections that match: who sends, who receives, and which send each receive takes.
struct Connections {
  std::vector<uint32_t> sending, receiving;  // threadblock -> its connection, or kNone
  std::vector<uint32_t> sender, receiver;    // connection -> threadblock
  std::vector<uint32_t> matching_send;       // step that receives -> step that sent, otherwise kNone
  std::vector<ConnectionFault> faults;
};
Connections connect(const PlacedPlan& plan);

enum class WaitKind : uint32_t {
#define WAIT_KIND(name) name,
#include "proof/wait_kinds.def"
#undef WAIT_KIND
};
struct BlockedStep {
  uint32_t step, block;
  WaitKind kind;
  uint32_t awaited_block;
};
struct RunResult {
  bool ended = false;
  std::vector<uint32_t> order;     // steps in the order in which they ended
  std::vector<BlockedStep> cycle;  // when it did not end: each waits for the next, the last for the first
};

inline constexpr uint32_t kUnlimited = 0xffffffff;

struct State {
  Values values;
  Memory memory;
};

// What a step stores and sends: `moved` is its source, `other` the message or, for re, the destination. The
// result is in `moved`; `sums` is room to work in.
void combine(Values& values, const OpcodeTraits& t, Segments& moved, Segments& other, Segments& sums);

// A step of `count` chunks is as many messages, each in a slot of its own, when a message packs at most `packing`.
constexpr uint32_t num_messages(uint32_t count, uint32_t packing) {
  return packing == kUnlimited || count <= packing ? 1 : (count - 1) / packing + 1;
}

// Runs the plan once. Threadblocks are sequential and connections are queues, so every other run ends where
// this one does. A message packs at most `packing` chunks of a step; with kUnlimited every step is one message.
// With no slots a send ends only when it is received. Memory is symbolic; without `state` none is kept.
RunResult run(const PlacedPlan& plan, const Connections& connections, uint32_t slots, uint32_t packing, State* state);

// Neighbouring packings, under which every step is the same number of messages.
struct PackedRun {
  uint32_t least_packing, most_packing;
  std::vector<BlockedStep> cycle;  // empty where the plan ends
};
// What comes of a plan under every packing of a range, in ascending order. Its connections must match.
std::vector<PackedRun> run_packings(const PlacedPlan& plan, uint32_t slots, uint32_t least, uint32_t most);

struct Race {
  uint32_t step, other_step, rank, chunk;
  bool writes, other_writes;
};
// Conflicting accesses that no chain of threadblock order, dependencies and messages orders; at most `limit`.
// A message may arrive chunk by chunk: when its first chunk is there, its last may not have been read yet.
// Nothing when the steps' ranges cut each other into more pieces than can be looked at.
std::optional<std::vector<Race>> find_races(const PlacedPlan& plan, const Connections& connections,
                                            const std::vector<uint32_t>& order, size_t limit);

// Steps whose source and destination overlap without being the same; at most `limit`.
std::vector<uint32_t> find_overlaps(const PlacedPlan& plan, size_t limit);

}  // namespace hemiola
