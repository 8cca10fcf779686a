// What memory holds against what a collective promises, and the laws of the two levels above the plan.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "proof/proof.h"

namespace hemiola {

struct Meaning {
  std::span<const Holding> held;
  std::span<const Promise> promised;
  std::span<const uint32_t> set_first;
  std::span<const uint64_t> runs;
};

struct BrokenPromise {
  uint32_t row;     // of `promised`
  uint32_t offset;  // the first chunk of it that is wrong
  bool garbage;
  // (rank, input chunk), with multiplicity; nothing where it is too long or others have been listed before
  std::optional<std::vector<std::pair<uint32_t, uint32_t>>> found;
};
struct Fulfilment {
  std::vector<BrokenPromise> broken;
  bool same_expression = true;  // chunks that are promised the same sum hold the same expression
};

State start(const Meaning& meaning, const Layout& layout);
Fulfilment check_promises(State& state, const Meaning& meaning, size_t limit);

// Runs rows one after another, in their order. `stuck` is the first row that needs a message that has not
// been sent, or whose message has another number of chunks; kNone when all rows ran.
struct SequentialRun {
  uint32_t stuck = kNone;
  State state;
};
// What a range of memory holds, for the promises of a trace.
using Reader = std::function<void(const Promise&, Segments&)>;
Fulfilment check_promises(Values& values, const Reader& read, const Meaning& meaning, size_t limit);

SequentialRun run_operations(std::span<const Operation> rows, const Meaning& meaning, const Layout& layout);
SequentialRun run_instructions(std::span<const Instruction> rows, uint32_t num_operations, const Meaning& meaning,
                               const Layout& layout);

struct Proof {
  std::vector<uint32_t> overlaps;
  std::vector<ConnectionFault> connection_faults;
  std::vector<BlockedStep> stuck;  // it stops even with as many slots as it likes
  std::vector<BlockedStep> stuck_by_step, stuck_by_chunk;
  std::vector<Race> races;
  Fulfilment fulfilment;
  bool too_large = false;  // ranges cut each other into more pieces than can be looked at
};
Proof prove(const PlacedPlan& plan, const Meaning& meaning, uint32_t slots, size_t limit);

}  // namespace hemiola
