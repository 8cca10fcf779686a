#include <algorithm>

#include "enforce.h"
#include "simulator/scene.h"

namespace hemiola::simulator {

namespace {

// Jobs of equal numbers have the same tiles: each has the number of the first one that has.
std::vector<uint32_t> tile_kinds(std::span<const Job> jobs) {
  std::vector<uint32_t> kinds;
  for (const Job& job : jobs) {
    uint32_t kind = 0;
    while (!std::ranges::equal(jobs[kind].tile_bytes, job.tile_bytes)) ++kind;
    kinds.push_back(kind);
  }
  return kinds;
}

Folding folding_of(std::span<const Job> jobs, const Setting& setting, const Wiring& wiring, bool is_wanted) {
  if (!is_wanted) return Folding::none(wiring.blocks.size(), setting.capacities.size());
  uint64_t num_events = 0;
  for (const Wiring::Block& block : wiring.blocks)
    num_events += uint64_t{block.num_steps} * jobs[block.job].tile_bytes.size();
  const std::vector<uint32_t> kinds = tile_kinds(jobs);
  return fold(jobs, setting, wiring, {kinds, num_events});
}

Scene scene_of(std::span<const Job> jobs, const Setting& setting, const Wiring& wiring, const Folding& folding) {
  Scene scene = make_scene(jobs, setting, wiring, folding);
  std::vector<std::span<const double>> tiles;
  for (const Job& job : jobs) tiles.push_back(job.tile_bytes);
  scene.set_tiles(tiles);
  return scene;
}

}  // namespace

void check_sizes(const Setting& setting, const Wiring& wiring) {
  const size_t num_blocks = wiring.blocks.size();
  ENFORCE(setting.work.size() == num_blocks && setting.latencies.size() == num_blocks &&
          setting.message_bytes.size() == num_blocks && setting.direct.size() == num_blocks &&
          setting.first_hop.size() == num_blocks + 1);
}

Result simulate(std::span<const Job> jobs, const Setting& setting, const Options& options) {
  ENFORCE(setting.slots > 0);
  const Wiring wiring = Wiring::of(jobs);
  check_sizes(setting, wiring);
  const size_t num_blocks = wiring.blocks.size();
  const Folding folding = folding_of(jobs, setting, wiring, options.fold);
  const Scene scene = scene_of(jobs, setting, wiring, folding);
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
