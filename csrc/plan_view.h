// PlanView: a plan's four tables as the proof, the runtime and the simulator read them, in memory that others own.
#pragma once

#include <cstdint>
#include <span>

#include "tables.h"

namespace hemiola {

// The form of the tables has been checked (ir.form): every number in them points at something that exists.
struct PlanView {
  std::span<const Rank> ranks;
  std::span<const Threadblock> threadblocks;
  std::span<const Step> steps;
  std::span<const Dependency> dependencies;

  // Each row names the first of its children, and the next row's first is its end.
  uint32_t end_of_rank(uint32_t rank) const {
    return rank + 1 < ranks.size() ? ranks[rank + 1].first_threadblock : static_cast<uint32_t>(threadblocks.size());
  }
  uint32_t end_of_block(uint32_t block) const {
    return block + 1 < threadblocks.size() ? threadblocks[block + 1].first_step : static_cast<uint32_t>(steps.size());
  }
  uint32_t end_of_waits(uint32_t step) const {
    return step + 1 < steps.size() ? steps[step + 1].first_dependency : static_cast<uint32_t>(dependencies.size());
  }
  // What `num_steps` steps from `step` on wait for.
  std::span<const Dependency> waits(uint32_t step, uint32_t num_steps = 1) const {
    const uint32_t first = steps[step].first_dependency;
    return dependencies.subspan(first, end_of_waits(step + num_steps - 1) - first);
  }
  // The row of `steps` that a dependency of a step of `rank` names.
  uint32_t awaited(uint32_t rank, const Dependency& wait) const {
    return threadblocks[ranks[rank].first_threadblock + wait.threadblock].first_step + wait.step;
  }
};

}  // namespace hemiola
