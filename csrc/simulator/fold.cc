// Folding: threadblocks are alike when they run the same steps, and all that they meet is alike: who sends to
// them and to whom they send, what they wait for, and the resources in order, each with as many users of every
// kind. Colours are refined until nothing changes. Then all of one colour do the same at the same time: they
// begin alike, and as long as they have done the same, the rates with which colours share the resources of
// colours are max-min fair for each of them too, and there is only one such allocation. One of each stands for all.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "simulator/scene.h"

namespace hemiola::simulator {

namespace {

// Rounds that always pay, and how many steps must be stepped for looking once more at every node.
constexpr uint64_t kFreeRounds = 24, kStepsPerLook = 8;
constexpr uint32_t kNobody = 0xfffffffe;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccd;
  return hash ^ (hash >> 32);
}

uint64_t bits_of(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

using Signature = std::vector<uint64_t>;

uint64_t hash_of(const Signature& signature) {
  uint64_t hash = signature.size();
  for (const uint64_t value : signature) hash = mix(hash, value);
  return hash;
}

class Folder {
 public:
  Folder(std::span<const Job> jobs, const Setting& setting, const Wiring& wiring)
      : jobs_(jobs),
        setting_(setting),
        wiring_(wiring),
        num_blocks_(wiring.blocks.size()),
        num_resources_(setting.capacities.size()) {
    for (uint32_t job = 0; job < jobs.size(); ++job) {
      uint32_t kind = 0;
      while (!is_same_job(jobs[kind], jobs[job])) ++kind;
      job_kind_.push_back(kind);
    }
    list_targets();
    list_users();
  }

  Folding run() {
    Folding unfolded = Folding::none(num_blocks_, num_resources_);
    std::vector<uint64_t> hashes(num_blocks_), resource_hashes(num_resources_);
    for (uint32_t block = 0; block < num_blocks_; ++block) hashes[block] = program_hash(block);
    for (uint32_t resource = 0; resource < num_resources_; ++resource)
      resource_hashes[resource] = bits_of(setting_.capacities[resource]);
    size_t num_classes = name(hashes, blocks_), num_resource_classes = name(resource_hashes, resources_);
    Signature signature;
    const uint64_t most_rounds = std::max(kFreeRounds, num_events() / (kStepsPerLook * (num_blocks_ + num_resources_)));
    for (uint64_t round = 0;; ++round) {
      if (round == most_rounds || num_classes * 2 > num_blocks_) return unfolded;
      for (uint32_t block = 0; block < num_blocks_; ++block) {
        describe_block(block, signature);
        hashes[block] = hash_of(signature);
      }
      for (uint32_t resource = 0; resource < num_resources_; ++resource) {
        describe_resource(resource, signature);
        resource_hashes[resource] = hash_of(signature);
      }
      const size_t before = num_classes, resources_before = num_resource_classes;
      num_classes = name(hashes, blocks_);
      num_resource_classes = name(resource_hashes, resources_);
      if (num_classes == before && num_resource_classes == resources_before) break;
    }
    Folding folding{blocks_, resources_};
    return is_exact() ? folding : unfolded;
  }

 private:
  static bool is_same_job(const Job& a, const Job& b) {
    return a.step_seconds == b.step_seconds && a.threadblock_bandwidth == b.threadblock_bandwidth &&
           std::equal(a.tile_bytes.begin(), a.tile_bytes.end(), b.tile_bytes.begin(), b.tile_bytes.end());
  }

  uint64_t num_events() const {
    uint64_t sum = 0;
    for (const Wiring::Block& block : wiring_.blocks) sum += block.num_steps * jobs_[block.job].tile_bytes.size();
    return sum;
  }

  // The first block of each hash gives its number to all of them; how many there are.
  static size_t name(const std::vector<uint64_t>& hashes, std::vector<uint32_t>& names) {
    std::unordered_map<uint64_t, uint32_t> first;
    names.resize(hashes.size());
    for (uint32_t k = 0; k < hashes.size(); ++k) names[k] = first.try_emplace(hashes[k], k).first->second;
    return first.size();
  }

  const PlanView& plan(uint32_t block) const { return jobs_[wiring_.blocks[block].job].plan; }

  // The threadblocks that each one waits for, in the order in which they are first named.
  void list_targets() {
    for (uint32_t block = 0; block < num_blocks_; ++block) {
      first_target_.push_back(targets_.size());
      const Wiring::Block& b = wiring_.blocks[block];
      if (b.num_steps == 0) continue;
      for (const Dependency& wait : plan(block).waits(b.first_step, b.num_steps)) {
        const uint32_t target = b.first_of_rank + wait.threadblock;
        if (std::find(targets_.begin() + static_cast<std::ptrdiff_t>(first_target_.back()), targets_.end(), target) ==
            targets_.end())
          targets_.push_back(target);
      }
    }
    first_target_.push_back(targets_.size());
  }

  uint64_t place_of_target(uint32_t block, uint32_t target) const {
    size_t at = first_target_[block];
    while (targets_[at] != target) ++at;
    return at - first_target_[block];
  }

  uint64_t program_hash(uint32_t block) const {
    const Wiring::Block& b = wiring_.blocks[block];
    const PlanView& tables = plan(block);
    uint64_t hash = mix(job_kind_[b.job], b.num_steps);
    hash = mix(hash, block_may_wait_forever(block));
    for (uint32_t row = b.first_step; row < b.first_step + b.num_steps; ++row) {
      const Step& step = tables.steps[row];
      hash = mix(hash, uint64_t{step.count} << 16 | static_cast<uint64_t>(step.opcode) << 8 |
                           static_cast<uint64_t>(work_of(step)));
      for (const Dependency& wait : tables.waits(row))
        hash = mix(hash, place_of_target(block, b.first_of_rank + wait.threadblock) << 32 | wait.step);
    }
    return hash;
  }

  bool block_may_wait_forever(uint32_t block) const {
    const Wiring::Block& b = wiring_.blocks[block];
    return (b.sends && wiring_.receiver[block] == kNone) || (b.receives && wiring_.sender[block] == kNone);
  }

  bool has_same_program(uint32_t block, uint32_t other) const {
    const Wiring::Block &a = wiring_.blocks[block], &b = wiring_.blocks[other];
    if (a.num_steps != b.num_steps || job_kind_[a.job] != job_kind_[b.job]) return false;
    const PlanView &tables = plan(block), &others = plan(other);
    for (uint32_t k = 0; k < a.num_steps; ++k) {
      const Step &step = tables.steps[a.first_step + k], &same = others.steps[b.first_step + k];
      if (step.opcode != same.opcode || step.count != same.count || work_of(step) != work_of(same)) return false;
      const auto first = tables.waits(a.first_step + k), second = others.waits(b.first_step + k);
      if (first.size() != second.size()) return false;
      for (size_t d = 0; d < first.size(); ++d)
        if (first[d].step != second[d].step || place_of_target(block, a.first_of_rank + first[d].threadblock) !=
                                                   place_of_target(other, b.first_of_rank + second[d].threadblock))
          return false;
    }
    return true;
  }

  enum Role : uint64_t { kSends, kAdds, kCopies };

  template <typename Visit>
  void visit_uses(uint32_t block, Visit visit) const {
    const Wiring::Block& b = wiring_.blocks[block];
    if (b.sends)
      for (int64_t k = setting_.first_hop[block]; k < setting_.first_hop[block + 1]; ++k)
        visit(static_cast<uint32_t>(setting_.hops[static_cast<size_t>(k)]), kSends);
    const WorkResources& work = setting_.work[block];
    for (int k = 0; k < 2; ++k) {
      if (b.adds && work.add[k] != kNoResource) visit(static_cast<uint32_t>(work.add[k]), kAdds);
      if (b.copies && work.copy[k] != kNoResource) visit(static_cast<uint32_t>(work.copy[k]), kCopies);
    }
  }

  void list_users() {
    first_user_.assign(num_resources_ + 1, 0);
    for (uint32_t block = 0; block < num_blocks_; ++block)
      visit_uses(block, [this](uint32_t resource, Role) { ++first_user_[resource + 1]; });
    for (size_t k = 0; k < num_resources_; ++k) first_user_[k + 1] += first_user_[k];
    users_.resize(first_user_.back());
    std::vector<size_t> next(first_user_.begin(), first_user_.end() - 1);
    for (uint32_t block = 0; block < num_blocks_; ++block)
      visit_uses(block, [&](uint32_t resource, Role role) { users_[next[resource]++] = uint64_t{block} << 2 | role; });
  }

  void describe_block(uint32_t block, Signature& signature) const {
    signature.clear();
    const auto colour = [this](uint32_t other) { return other == kNone ? kNobody : blocks_[other]; };
    signature.push_back(blocks_[block]);
    signature.push_back(colour(wiring_.sender[block]));
    signature.push_back(colour(wiring_.receiver[block]));
    if (wiring_.blocks[block].sends) signature.push_back(bits_of(setting_.latencies[block]));
    for (size_t k = first_target_[block]; k < first_target_[block + 1]; ++k) signature.push_back(colour(targets_[k]));
    visit_uses(block,
               [&](uint32_t resource, Role role) { signature.push_back(uint64_t{resources_[resource]} << 2 | role); });
  }

  void describe_resource(uint32_t resource, Signature& signature) const {
    signature.clear();
    for (size_t k = first_user_[resource]; k < first_user_[resource + 1]; ++k)
      signature.push_back(uint64_t{blocks_[users_[k] >> 2]} << 2 | (users_[k] & 3));
    std::sort(signature.begin(), signature.end());
    signature.push_back(resources_[resource]);
    signature.push_back(bits_of(setting_.capacities[resource]));
  }

  // Whether all that has one colour is really alike: names come from hashes, and this does not trust them.
  bool is_exact() const {
    Signature signature, other;
    for (uint32_t block = 0; block < num_blocks_; ++block) {
      if (blocks_[block] == block) continue;
      describe_block(block, signature);
      describe_block(blocks_[block], other);
      if (signature != other || !has_same_program(block, blocks_[block])) return false;
    }
    for (uint32_t resource = 0; resource < num_resources_; ++resource) {
      if (resources_[resource] == resource) continue;
      describe_resource(resource, signature);
      describe_resource(resources_[resource], other);
      if (signature != other) return false;
    }
    return true;
  }

  std::span<const Job> jobs_;
  const Setting& setting_;
  const Wiring& wiring_;
  const size_t num_blocks_, num_resources_;
  std::vector<uint32_t> job_kind_, targets_;
  std::vector<size_t> first_target_, first_user_;
  std::vector<uint64_t> users_;               // block and role
  std::vector<uint32_t> blocks_, resources_;  // colours: the first that has the colour
};

}  // namespace

Folding fold(std::span<const Job> jobs, const Setting& setting, const Wiring& wiring) {
  return Folder(jobs, setting, wiring).run();
}

}  // namespace hemiola::simulator
