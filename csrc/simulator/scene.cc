#include "simulator/scene.h"

#include <algorithm>
#include <limits>

#include "enforce.h"

namespace hemiola::simulator {

namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1 + 1e-12;

class SceneMaker {
 public:
  SceneMaker(std::span<const Job> jobs, const Setting& setting, const Wiring& wiring, const Folding& folding)
      : jobs_(jobs),
        setting_(setting),
        wiring_(wiring),
        folding_(folding),
        number_(wiring.blocks.size(), kNone),
        members_(wiring.blocks.size()),
        resource_members_(setting.capacities.size()) {
    for (const uint32_t block : folding.block_class) ++members_[block];
    for (const uint32_t resource : folding.resource_class) ++resource_members_[resource];
  }

  Scene make() {
    scene_.slots = setting_.slots;
    scene_.capacities.assign(setting_.capacities.begin(), setting_.capacities.end());
    std::vector<uint32_t> kept;
    for (uint32_t block = 0; block < wiring_.blocks.size(); ++block)
      if (folding_.block_class[block] == block) {
        number_[block] = static_cast<uint32_t>(kept.size());
        kept.push_back(block);
      }
    std::vector<uint32_t> first_tiles;
    for (const Job& job : jobs_) {
      first_tiles.push_back(static_cast<uint32_t>(scene_.tile_bytes.size()));
      scene_.tile_bytes.insert(scene_.tile_bytes.end(), job.tile_bytes.begin(), job.tile_bytes.end());
    }
    scene_.blocks.reserve(kept.size());
    for (const uint32_t block : kept) add_block(block, first_tiles[wiring_.blocks[block].job]);
    number_awaited();
    drop_resources_that_never_bind();
    return std::move(scene_);
  }

 private:
  uint32_t scene_block(uint32_t original) const {
    return original == kNone ? kNone : number_[folding_.block_class[original]];
  }

  void add_block(uint32_t original, uint32_t first_tile) {
    const Wiring::Block& block = wiring_.blocks[original];
    const Job& job = jobs_[block.job];
    SceneBlock made{};
    made.first_step = static_cast<uint32_t>(scene_.steps.size());
    made.num_steps = block.num_steps;
    made.original = original;
    made.sender = scene_block(wiring_.sender[original]);
    made.receiver = scene_block(wiring_.receiver[original]);
    made.first_tile = first_tile;
    made.num_tiles = block.num_steps == 0 ? 0 : static_cast<uint32_t>(job.tile_bytes.size());
    made.step_seconds = job.step_seconds;
    made.latency = setting_.latencies[original];
    made.send = made.add = made.copy = kNone;
    for (uint32_t k = 0; k < block.num_steps; ++k) add_step(block, job.plan, block.first_step + k);
    if (block.sends) {
      const auto first = setting_.hops.begin() + setting_.first_hop[original];
      const auto last = setting_.hops.begin() + setting_.first_hop[original + 1];
      hops_.assign(first, last);
      made.send = add_source(original, kUnlimited);
    }
    const WorkResources& work = setting_.work[original];
    if (block.adds) made.add = add_work(original, work.add, job.threadblock_bandwidth);
    if (block.copies) made.copy = add_work(original, work.copy, job.threadblock_bandwidth);
    scene_.blocks.push_back(made);
  }

  void add_step(const Wiring::Block& block, const PlanView& plan, uint32_t row) {
    const Step& step = plan.steps[row];
    const auto first = static_cast<uint32_t>(scene_.waits.size());
    for (const Dependency& wait : plan.waits(row))
      scene_.waits.push_back({scene_block(block.first_of_rank + wait.threadblock), wait.step});
    const OpcodeTraits& acts = traits(step.opcode);
    scene_.steps.push_back({step.count, first, static_cast<uint32_t>(scene_.waits.size()) - first, kNone, acts.receives,
                            acts.sends, work_of(step)});
  }

  uint32_t add_work(uint32_t original, const int32_t (&resources)[2], double cap) {
    hops_.clear();
    for (const int32_t resource : resources)
      if (resource != kNoResource) hops_.push_back(resource);
    return add_source(original, cap);
  }

  // Of all members of a class together, as many pass through each resource as its share of the hops.
  uint32_t add_source(uint32_t original, double cap) {
    Source source;
    source.first_use = static_cast<uint32_t>(scene_.uses.size());
    source.cap = cap;
    for (const int64_t hop : hops_) {
      const uint32_t resource = folding_.resource_class[static_cast<size_t>(hop)];
      const double weight = static_cast<double>(members_[original]) / resource_members_[resource];
      const auto begin = scene_.uses.begin() + source.first_use;
      const auto found = std::find_if(begin, scene_.uses.end(), [&](const Use& u) { return u.resource == resource; });
      if (found != scene_.uses.end())
        found->weight += weight;
      else
        scene_.uses.push_back({resource, weight});
    }
    source.num_uses = static_cast<uint32_t>(scene_.uses.size()) - source.first_use;
    for (uint32_t k = 0; k < source.num_uses; ++k) {
      const Use& use = scene_.uses[source.first_use + k];
      const double alone = scene_.capacities[use.resource] / use.weight;
      if (alone < source.cap) {
        source.cap = alone;
        source.limit = static_cast<int32_t>(use.resource);
      }
    }
    scene_.sources.push_back(source);
    return static_cast<uint32_t>(scene_.sources.size() - 1);
  }

  void number_awaited() {
    for (const Wait& wait : scene_.waits) {
      uint32_t& row = scene_.steps[scene_.blocks[wait.block].first_step + wait.step].awaited;
      if (row == kNone) row = scene_.num_awaited++;
    }
  }

  // A resource that carries all its users at the highest rates they can ever have makes nobody wait.
  void drop_resources_that_never_bind() {
    std::vector<double> load(scene_.capacities.size(), 0);
    for (const Source& source : scene_.sources)
      for (uint32_t k = 0; k < source.num_uses; ++k) {
        const Use& use = scene_.uses[source.first_use + k];
        load[use.resource] += use.weight * source.cap;
      }
    for (Source& source : scene_.sources) {
      const auto first = scene_.uses.begin() + source.first_use;
      const auto last = std::remove_if(first, first + source.num_uses, [&](const Use& use) {
        return load[use.resource] <= scene_.capacities[use.resource] * kRounding;
      });
      source.num_uses = static_cast<uint32_t>(last - first);
      scene_.is_fixed &= source.is_fixed();
    }
  }

  std::span<const Job> jobs_;
  const Setting& setting_;
  const Wiring& wiring_;
  const Folding& folding_;
  std::vector<uint32_t> number_, members_, resource_members_;
  std::vector<int64_t> hops_;
  Scene scene_;
};

}  // namespace

Folding Folding::none(size_t num_blocks, size_t num_resources) {
  Folding folding;
  for (uint32_t block = 0; block < num_blocks; ++block) folding.block_class.push_back(block);
  for (uint32_t resource = 0; resource < num_resources; ++resource) folding.resource_class.push_back(resource);
  return folding;
}

Scene make_scene(std::span<const Job> jobs, const Setting& setting, const Wiring& wiring, const Folding& folding) {
  return SceneMaker(jobs, setting, wiring, folding).make();
}

}  // namespace hemiola::simulator
