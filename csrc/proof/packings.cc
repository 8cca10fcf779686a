#include <algorithm>

#include "enforce.h"
#include "proof/proof.h"

namespace hemiola {
namespace {

// The different numbers of chunks that steps move.
std::vector<uint32_t> different_counts(const PlacedPlan& plan) {
  std::vector<uint32_t> counts;
  for (const Step& step : plan.steps) {
    const OpcodeTraits& t = traits(step.opcode);
    if (t.sends || t.receives) counts.push_back(step.count);
  }
  std::ranges::sort(counts);
  const auto rest = std::ranges::unique(counts);
  counts.erase(rest.begin(), rest.end());
  return counts;
}

}  // namespace

// Only the number of messages of each step decides, so packings that give the same numbers need one run together.
std::vector<PackedRun> run_packings(const PlacedPlan& plan, uint32_t slots, uint32_t least, uint32_t most) {
  const Connections connections = connect(plan);
  ENFORCE(connections.faults.empty(), "packings are run where connections match");
  const std::vector<uint32_t> counts = different_counts(plan);
  std::vector<PackedRun> runs;
  std::vector<uint32_t> before, messages;
  for (uint32_t packing = least; packing <= most; ++packing) {
    messages.clear();
    for (uint32_t count : counts) messages.push_back(num_messages(count, packing));
    if (!runs.empty() && messages == before) {
      runs.back().most_packing = packing;
      continue;
    }
    runs.push_back({packing, packing, run(plan, connections, slots, packing, nullptr).cycle});
    before.swap(messages);
  }
  return runs;
}

}  // namespace hemiola
