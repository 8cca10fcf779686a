// What memory holds against what a collective promises, and the laws of the two levels above the plan.
#pragma once

#include <span>
#include <vector>

#include "proof/proof.h"

namespace hemiola {

struct Meaning {
  std::span<const Holding> held;
  std::span<const Promise> promised;
  std::span<const uint32_t> set_first, runs;
};

struct BrokenPromise {
  uint32_t row;  // of `promised`
  bool garbage;
  std::vector<uint32_t> found;  // contributions, with multiplicity
};
struct Fulfilment {
  std::vector<BrokenPromise> broken;
  bool same_expression = true;  // chunks that are promised the same sum hold the same expression
};

Memory start(const Meaning& meaning, const Layout& layout);
Fulfilment check_promises(Memory& memory, const Meaning& meaning, const Layout& layout, size_t limit);

// Runs rows one after another, in their order. `stuck` is the first row that needs a message that has not
// been sent, or whose message has another number of chunks; kNone when all rows ran.
struct SequentialRun {
  uint32_t stuck = kNone;
  Memory memory;
};
SequentialRun run_operations(std::span<const Operation> rows, const Meaning& meaning, const Layout& layout);
SequentialRun run_instructions(std::span<const Instruction> rows, uint32_t num_operations, const Meaning& meaning,
                               const Layout& layout);

struct Proof {
  std::vector<uint32_t> overlaps;
  std::vector<ConnectionFault> connection_faults;
  std::vector<BlockedStep> stuck;         // it stops even with as many slots as it likes
  std::vector<BlockedStep> stuck_by_step, stuck_by_chunk;
  std::vector<Race> races;
  Fulfilment fulfilment;
};
Proof prove(const PlanView& plan, const Meaning& meaning, uint32_t slots, size_t limit);

}  // namespace hemiola
