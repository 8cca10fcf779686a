#include "simulator/scene.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <unordered_map>

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
    scene_.blocks.reserve(kept.size());
    for (const uint32_t block : kept) add_block(block);
    number_awaited();
    drop_resources_that_never_bind();
    number_alike();
    return std::move(scene_);
  }

 private:
  uint32_t scene_block(uint32_t original) const {
    return original == kNone ? kNone : number_[folding_.block_class[original]];
  }

  void add_block(uint32_t original) {
    const Wiring::Block& block = wiring_.blocks[original];
    const Job& job = jobs_[block.job];
    SceneBlock made{};
    made.job = block.job;
    made.first_step = static_cast<uint32_t>(scene_.steps.size());
    made.num_steps = block.num_steps;
    made.original = original;
    made.sender = scene_block(wiring_.sender[original]);
    made.receiver = scene_block(wiring_.receiver[original]);
    made.step_seconds = job.step_seconds;
    made.launch_seconds = job.launch_seconds;
    made.latency = setting_.latencies[original];
    made.message_bytes = setting_.message_bytes[original];
    made.direct = setting_.direct[original] != 0;
    made.send = made.send_sum = made.take = made.take_sum = made.add = made.copy = kNone;
    for (uint32_t k = 0; k < block.num_steps; ++k) add_step(block, job, block.first_step + k);
    const WorkResources& work = setting_.work[original];
    if (block.sends && !made.direct) {
      take_route(original);
      made.send = add_source(original, kUnlimited);
    }
    if (block.sends && made.direct) made.send = add_direct(original, work.copy, job.send_bandwidth);
    if (block.sends_sums && made.direct) made.send_sum = add_direct(original, work.add, job.send_bandwidth);
    if (block.takes) made.take = add_work(original, work.copy, job.receive_bandwidth);
    if (block.takes_sums) made.take_sum = add_work(original, work.add, job.receive_bandwidth);
    if (block.adds) made.add = add_work(original, work.add, job.threadblock_bandwidth);
    if (block.copies) made.copy = add_work(original, work.copy, job.threadblock_bandwidth);
    scene_.blocks.push_back(made);
  }

  void add_step(const Wiring::Block& block, const Job& job, uint32_t row) {
    const PlanView& plan = job.plan;
    const Step& step = plan.steps[row];
    const auto first = static_cast<uint32_t>(scene_.waits.size());
    for (const Dependency& wait : plan.waits(row))
      scene_.waits.push_back({scene_block(block.first_of_rank + wait.threadblock), wait.step});
    const OpcodeTraits& acts = traits(step.opcode);
    scene_.steps.push_back({step.count, first, static_cast<uint32_t>(scene_.waits.size()) - first, kNone, acts.receives,
                            acts.sends, work_of(step), job.act_seconds_of(row)});
  }

  void take_route(uint32_t original) {
    const auto first = setting_.hops.begin() + setting_.first_hop[original];
    const auto last = setting_.hops.begin() + setting_.first_hop[original + 1];
    hops_.assign(first, last);
  }

  void take(const int32_t (&resources)[2]) {
    for (const int32_t resource : resources)
      if (resource != kNoResource) hops_.push_back(resource);
  }

  uint32_t add_work(uint32_t original, const int32_t (&resources)[2], double cap) {
    hops_.clear();
    take(resources);
    return add_source(original, cap);
  }

  uint32_t add_direct(uint32_t original, const int32_t (&resources)[2], double cap) {
    take_route(original);
    take(resources);
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

  // Sources that use the same resources alike have the same rate whenever both are active.
  void number_alike() {
    std::unordered_multimap<uint64_t, uint32_t> firsts;
    for (uint32_t number = 0; number < scene_.sources.size(); ++number) {
      Source& source = scene_.sources[number];
      source.alike = number;
      if (source.is_fixed()) continue;
      const uint64_t hash = hash_of(source);
      const auto [begin, end] = firsts.equal_range(hash);
      const auto same = std::find_if(begin, end, [&](const auto& at) { return is_alike(source, at.second); });
      if (same != end)
        source.alike = same->second;
      else
        firsts.emplace(hash, number);
    }
  }

  std::span<const Use> uses_of(const Source& source) const {
    return std::span(scene_.uses).subspan(source.first_use, source.num_uses);
  }

  uint64_t hash_of(const Source& source) const {
    uint64_t hash = std::hash<double>()(source.cap);
    for (const Use& use : uses_of(source)) hash = hash * 0x9e3779b97f4a7c15 + use.resource;
    return hash;
  }

  bool is_alike(const Source& source, uint32_t number) const {
    const Source& other = scene_.sources[number];
    return source.cap == other.cap && source.limit == other.limit &&
           std::ranges::equal(uses_of(source), uses_of(other), [](const Use& a, const Use& b) {
             return a.resource == b.resource && a.weight == b.weight;
           });
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

void Scene::set_tiles(std::span<const std::span<const double>> of_jobs) {
  tile_bytes.clear();
  std::vector<uint32_t> first_tiles;
  for (const std::span<const double> tiles : of_jobs) {
    first_tiles.push_back(static_cast<uint32_t>(tile_bytes.size()));
    tile_bytes.insert(tile_bytes.end(), tiles.begin(), tiles.end());
  }
  for (SceneBlock& block : blocks) {
    block.first_tile = first_tiles[block.job];
    block.num_tiles = block.num_steps == 0 ? 0 : static_cast<uint32_t>(of_jobs[block.job].size());
  }
}

Scene make_scene(std::span<const Job> jobs, const Setting& setting, const Wiring& wiring, const Folding& folding) {
  return SceneMaker(jobs, setting, wiring, folding).make();
}

}  // namespace hemiola::simulator
