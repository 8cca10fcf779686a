#include <algorithm>

#include "proof/promises.h"

namespace hemiola {

// Each part is let go before the next begins: symbolic memory, then the order of the run.
Proof prove(const PlacedPlan& plan, const Meaning& meaning, uint32_t slots, size_t limit) {
  Proof proof;
  proof.overlaps = find_overlaps(plan, limit);
  const Connections connections = connect(plan);
  proof.connection_faults = connections.faults;
  if (!proof.overlaps.empty() || !proof.connection_faults.empty()) return proof;
  {
    std::vector<uint32_t> order;
    {
      State state = start(meaning, *plan.layout);
      RunResult free = run(plan, connections, kUnlimited, kUnlimited, &state);
      proof.stuck = free.cycle;
      if (!free.ended) return proof;
      proof.fulfilment = check_promises(state, meaning, limit);
      order = std::move(free.order);
    }
    const auto races = find_races(plan, connections, order, limit);
    proof.too_large = !races.has_value();
    if (proof.too_large) return proof;
    proof.races = *races;
  }
  proof.stuck_by_step = run(plan, connections, slots, kUnlimited, nullptr).cycle;
  const bool single = std::ranges::all_of(plan.steps, [](const Step& step) { return step.count <= 1; });
  proof.stuck_by_chunk = single ? proof.stuck_by_step : run(plan, connections, slots, 1, nullptr).cycle;
  return proof;
}

}  // namespace hemiola
