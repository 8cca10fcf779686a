#include <algorithm>

#include "enforce.h"
#include "simulator/scene.h"

namespace hemiola::simulator {

Result simulate(std::span<const Job> jobs, const Setting& setting, const Options& options) {
  ENFORCE(setting.slots > 0);
  const Wiring wiring = Wiring::of(jobs);
  const size_t num_blocks = wiring.blocks.size();
  ENFORCE(setting.work.size() == num_blocks && setting.latencies.size() == num_blocks &&
          setting.first_hop.size() == num_blocks + 1);
  const Folding folding =
      options.fold ? fold(jobs, setting, wiring) : Folding::none(num_blocks, setting.capacities.size());
  const Scene scene = make_scene(jobs, setting, wiring, folding);
  Result result;
  result.by_events = options.events || !scene.is_fixed;
  const bool record = scene.num_events() <= options.most_records;
  Replay replay = result.by_events ? replay_events(scene, record) : replay_dataflow(scene, record);
  result.ended = replay.ended;
  result.num_simulated = scene.num_events();
  result.block_seconds.resize(num_blocks);
  for (size_t k = 0; k < scene.blocks.size(); ++k) {
    result.block_seconds[scene.blocks[k].original] = replay.ends[k];
    result.seconds = std::max(result.seconds, replay.ends[k]);
  }
  for (size_t block = 0; block < num_blocks; ++block)
    result.block_seconds[block] = result.block_seconds[folding.block_class[block]];
  if (record && replay.ended) result.path = critical_path(scene, replay);
  result.records = std::move(replay.records);
  result.block_class = folding.block_class;
  result.resource_class = folding.resource_class;
  return result;
}

}  // namespace hemiola::simulator
