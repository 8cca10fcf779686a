// The proof of a plan: do its connections match, does it end, what does it compute, is every conflict ordered.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "layout.h"
#include "memory.h"
#include "tables.h"
#include "values.h"

namespace hemiola {

// A plan whose form has been checked: every number in its tables points at something that exists.
struct PlanView {
  std::span<const Rank> ranks;
  std::span<const Threadblock> threadblocks;
  std::span<const Step> steps;
  std::span<const Dependency> dependencies;
  const Layout* layout;  // of the memory, in which aliased buffers are one
  uint32_t alias_source, alias_target;
  std::span<const int32_t> alias_offset;  // per rank, negative for none

  uint32_t end_of_block(uint32_t block) const {
    return block + 1 < threadblocks.size() ? threadblocks[block + 1].first_step : static_cast<uint32_t>(steps.size());
  }
  uint32_t end_of_waits(uint32_t step) const {
    return step + 1 < steps.size() ? steps[step + 1].first_dependency : static_cast<uint32_t>(dependencies.size());
  }
  // The row of `steps` that a dependency of a step of `rank` names.
  uint32_t awaited(uint32_t rank, const Dependency& wait) const {
    return threadblocks[ranks[rank].first_threadblock + wait.threadblock].first_step + wait.step;
  }
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

enum class ConnectionFaultKind : uint32_t { two_senders, two_receivers, more_sent, more_received, counts };
struct ConnectionFault {
  uint32_t kind, block, other_block, step, other_step;  // rows of the plan; kNone where there is none
};

// Connections that match: who sends, who receives, and which send each receive takes.
struct Connections {
  std::vector<uint32_t> sending, receiving;  // threadblock -> its connection, or kNone
  std::vector<uint32_t> sender, receiver;    // connection -> threadblock
  std::vector<uint32_t> matching_send;       // step that receives -> step that sent, otherwise kNone
  std::vector<ConnectionFault> faults;
};
Connections connect(const PlanView& plan);

enum class WaitKind : uint32_t { message, slot, dependency, receipt };
struct BlockedStep {
  uint32_t step, block, kind, awaited_block;
};
struct RunResult {
  bool ended = false;
  std::vector<uint32_t> order;      // steps in the order in which they ended
  std::vector<BlockedStep> cycle;   // when it did not end: each waits for the next, the last for the first
};

inline constexpr uint32_t kUnlimited = 0xffffffff;

struct State {
  Values values;
  Memory memory;
};

// What a step stores and sends: `moved` is its source, `other` the message or, for re, the destination. The
// result is in `moved`; `sums` is room to work in.
void combine(Values& values, const OpcodeTraits& t, Segments& moved, Segments& other, Segments& sums);

// Runs the plan once. Threadblocks are sequential and connections are queues, so every other run ends where
// this one does. `by_chunk`: a step moves its chunks one by one, each in a slot of its own; otherwise a step
// takes one slot. With no slots a send ends only when it is received. Memory is symbolic; without `state` none
// is kept.
RunResult run(const PlanView& plan, const Connections& connections, uint32_t slots, bool by_chunk, State* state);

struct Race {
  uint32_t step, other_step, rank, chunk;
  bool writes, other_writes;
};
// Conflicting accesses that no chain of threadblock order, dependencies and messages orders; at most `limit`.
// A message may arrive chunk by chunk: when its first chunk is there, its last may not have been read yet.
// Nothing when the steps' ranges cut each other into more pieces than can be looked at.
std::optional<std::vector<Race>> find_races(const PlanView& plan, const Connections& connections,
                                            const std::vector<uint32_t>& order, size_t limit);

// Steps whose source and destination overlap without being the same; at most `limit`.
std::vector<uint32_t> find_overlaps(const PlanView& plan, size_t limit);

}  // namespace hemiola
