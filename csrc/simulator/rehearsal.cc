#include "simulator/rehearsal.h"

#include <algorithm>

#include "enforce.h"

namespace hemiola::simulator {

namespace {

// So many tiles are assumed when the time for folding is weighed against what it saves.
constexpr uint64_t kExpectedTiles = 256;

Scene folded_scene(std::span<const Job> jobs, const Setting& setting, std::span<const uint32_t> tile_kinds) {
  ENFORCE(setting.slots > 0 && tile_kinds.size() == jobs.size());
  const Wiring wiring = Wiring::of(jobs);
  check_sizes(setting, wiring);
  uint64_t num_steps = 0;
  for (const Wiring::Block& block : wiring.blocks) num_steps += block.num_steps;
  return make_scene(jobs, setting, wiring, fold(jobs, setting, wiring, {tile_kinds, num_steps * kExpectedTiles}));
}

}  // namespace

Rehearsal::Rehearsal(std::span<const Job> jobs, const Setting& setting, std::span<const uint32_t> tile_kinds)
    : tile_kinds_(tile_kinds.begin(), tile_kinds.end()), scene_(folded_scene(jobs, setting, tile_kinds)) {}

double Rehearsal::seconds(std::span<const std::span<const double>> tiles_of_kinds) {
  std::vector<std::span<const double>> of_jobs;
  for (const uint32_t kind : tile_kinds_) {
    ENFORCE(kind < tiles_of_kinds.size(), "tiles of ", tiles_of_kinds.size(), " kinds, and a job of kind ", kind);
    of_jobs.push_back(tiles_of_kinds[kind]);
  }
  scene_.set_tiles(of_jobs);
  const Replay replay = scene_.is_fixed ? replay_dataflow(scene_, false) : replay_events(scene_, false);
  if (!replay.ended) return -1;
  return replay.ends.empty() ? 0 : *std::max_element(replay.ends.begin(), replay.ends.end());
}

}  // namespace hemiola::simulator
