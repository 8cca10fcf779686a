// Folding: threadblocks are alike when they run the same steps, and all that they meet is alike: who sends to
// them and to whom they send, what they wait for, and the resources in order, each with as many users of every
// kind. Colours are refined until nothing changes: only what is near a new colour is looked at again, because a long
// chain of threadblocks is told apart one link a round. Then all of one colour do the same at the same time: they
// begin alike, and as long as they have done the same, the rates with which colours share the resources of
// colours are max-min fair for each of them too, and there is only one such allocation. One of each stands for all.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "simulator/scene.h"

namespace hemiola::simulator {

namespace {

// Looks at every threadblock and resource that always pay, and how many steps must be stepped for one more look.
constexpr uint64_t kFreeLooks = 24, kStepsPerLook = 8;
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
  Folder(std::span<const Job> jobs, const Setting& setting, const Wiring& wiring, const FoldingRequest& request)
      : jobs_(jobs),
        setting_(setting),
        wiring_(wiring),
        request_(request),
        num_blocks_(wiring.blocks.size()),
        num_resources_(setting.capacities.size()) {
    for (uint32_t job = 0; job < jobs.size(); ++job) {
      uint32_t kind = 0;
      while (!is_same_job(kind, job)) ++kind;
      job_kind_.push_back(kind);
    }
    list_targets();
    list_users();
  }

  Folding run() {
    Folding unfolded = Folding::none(num_blocks_, num_resources_);
    start();
    const uint64_t most_looks =
        std::max(kFreeLooks * (num_blocks_ + num_resources_), request_.num_events / kStepsPerLook);
    for (uint64_t num_looks = 0; !blocks_.seen.empty() || !resources_.seen.empty();) {
      num_looks += blocks_.seen.size() + resources_.seen.size();
      if (num_looks > most_looks || blocks_.num_colours * 2 > num_blocks_) return unfolded;
      look();
    }
    if (blocks_.num_colours * 2 > num_blocks_) return unfolded;
    blocks_.use_first_numbers();
    resources_.use_first_numbers();
    return is_exact() ? Folding{blocks_.colour, resources_.colour} : unfolded;
  }

 private:
  bool is_same_job(uint32_t one, uint32_t other) const {
    const Job &a = jobs_[one], &b = jobs_[other];
    return request_.tile_kinds[one] == request_.tile_kinds[other] && a.step_seconds == b.step_seconds &&
           a.threadblock_bandwidth == b.threadblock_bandwidth && a.launch_seconds == b.launch_seconds &&
           a.send_bandwidth == b.send_bandwidth && a.receive_bandwidth == b.receive_bandwidth;
  }

  // Nodes of one sort, their colours, and those that are to be looked at.
  struct Colours {
    std::vector<uint32_t> colour;
    std::vector<uint64_t> hash;     // of what was seen around a node
    std::vector<uint32_t> members;  // of every colour
    size_t num_colours = 0;
    std::vector<uint32_t> seen;
    std::vector<bool> is_seen;
    struct Change {
      uint32_t node, before;
    };
    std::vector<Change> changes;

    // The first node of each hash gives its number to all of them.
    void start(size_t num_nodes) {
      std::unordered_map<uint64_t, uint32_t> first;
      colour.resize(num_nodes);
      members.resize(num_nodes);
      is_seen.assign(num_nodes, false);
      for (uint32_t k = 0; k < num_nodes; ++k) {
        colour[k] = first.try_emplace(hash[k], k).first->second;
        ++members[colour[k]];
        see(k);
      }
      num_colours = first.size();
    }

    void see(uint32_t node) {
      if (is_seen[node]) return;
      is_seen[node] = true;
      seen.push_back(node);
    }

    // Gives a new colour to those of the nodes just looked at that are no longer like others of their colour. Around
    // each of them something got a colour that never was before, so that none is like those that were not looked at.
    void split() {
      changes.clear();
      std::ranges::sort(seen, [this](uint32_t a, uint32_t b) {
        return colour[a] != colour[b] ? colour[a] < colour[b] : hash[a] != hash[b] ? hash[a] < hash[b] : a < b;
      });
      for (size_t first = 0; first < seen.size();) {
        const uint32_t old = colour[seen[first]];
        size_t last = first;
        while (last < seen.size() && colour[seen[last]] == old) ++last;
        split_one(old, first, last);
        first = last;
      }
      for (const uint32_t node : seen) is_seen[node] = false;
      seen.clear();
    }

    // The largest part keeps the colour, so that fewer have to be looked at again.
    void split_one(uint32_t old, size_t first, size_t last) {
      std::vector<std::pair<size_t, size_t>> parts;
      for (size_t at = first; at < last;) {
        size_t end = at;
        while (end < last && hash[seen[end]] == hash[seen[at]]) ++end;
        parts.emplace_back(at, end);
        at = end;
      }
      if (members[old] == last - first)
        parts.erase(std::ranges::max_element(parts, {}, [](const auto& part) { return part.second - part.first; }));
      for (const auto& [at, end] : parts) {
        const auto made = static_cast<uint32_t>(members.size());
        members.push_back(static_cast<uint32_t>(end - at));
        members[old] -= members.back();
        ++num_colours;
        for (size_t k = at; k < end; ++k) changes.push_back({seen[k], old});
        for (size_t k = at; k < end; ++k) next.push_back(made);
      }
    }

    // Colours are given only once all parts are known, because nodes are ordered by the old ones.
    void recolour() {
      for (size_t k = 0; k < changes.size(); ++k) colour[changes[k].node] = next[k];
      next.clear();
    }

    // Every colour becomes the number of the first node that has it.
    void use_first_numbers() {
      std::vector<uint32_t> first(members.size(), kNone);
      for (uint32_t k = 0; k < colour.size(); ++k) {
        uint32_t& number = first[colour[k]];
        if (number == kNone) number = k;
        colour[k] = number;
      }
    }

    std::vector<uint32_t> next;  // colours of the changes
  };

  void start() {
    for (uint32_t block = 0; block < num_blocks_; ++block) blocks_.hash.push_back(program_hash(block));
    for (uint32_t resource = 0; resource < num_resources_; ++resource)
      resources_.hash.push_back(bits_of(setting_.capacities[resource]));
    blocks_.start(num_blocks_);
    resources_.start(num_resources_);
    users_hash_.assign(num_resources_, 0);
    for (uint32_t block = 0; block < num_blocks_; ++block)
      visit_uses(block, [&](uint32_t resource, Role role) {
        users_hash_[resource] += user_hash(blocks_.colour[block], role);
      });
  }

  // As many users of every kind, in any order.
  static uint64_t user_hash(uint32_t colour, uint64_t role) { return mix(0, uint64_t{colour} << 2 | role); }

  // Looks at what may have changed, and finds out what has to be looked at next.
  void look() {
    Signature signature;
    for (const uint32_t block : blocks_.seen) {
      describe_block(block, signature);
      blocks_.hash[block] = hash_of(signature);
    }
    for (const uint32_t resource : resources_.seen) resources_.hash[resource] = users_hash_[resource];
    blocks_.split();
    resources_.split();
    blocks_.recolour();
    resources_.recolour();
    for (const auto& [block, before] : blocks_.changes) {
      for (const uint32_t near : {wiring_.sender[block], wiring_.receiver[block]})
        if (near != kNone) blocks_.see(near);
      for (size_t k = first_waiter_[block]; k < first_waiter_[block + 1]; ++k) blocks_.see(waiters_[k]);
      visit_uses(block, [&, before = before, block = block](uint32_t resource, Role role) {
        users_hash_[resource] += user_hash(blocks_.colour[block], role) - user_hash(before, role);
        resources_.see(resource);
      });
    }
    for (const auto& [resource, before] : resources_.changes)
      for (size_t k = first_user_[resource]; k < first_user_[resource + 1]; ++k)
        blocks_.see(static_cast<uint32_t>(users_[k] >> 2));
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
    list_waiters();
  }

  // The same the other way round.
  void list_waiters() {
    first_waiter_.assign(num_blocks_ + 1, 0);
    for (const uint32_t target : targets_) ++first_waiter_[target + 1];
    for (size_t k = 0; k < num_blocks_; ++k) first_waiter_[k + 1] += first_waiter_[k];
    waiters_.resize(targets_.size());
    std::vector<size_t> next(first_waiter_.begin(), first_waiter_.end() - 1);
    for (uint32_t block = 0; block < num_blocks_; ++block)
      for (size_t k = first_target_[block]; k < first_target_[block + 1]; ++k) waiters_[next[targets_[k]]++] = block;
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
      hash = mix(hash, bits_of(jobs_[b.job].act_seconds_of(row)));
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
      if (jobs_[a.job].act_seconds_of(a.first_step + k) != jobs_[b.job].act_seconds_of(b.first_step + k)) return false;
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
    const auto colour = [this](uint32_t other) { return other == kNone ? kNobody : blocks_.colour[other]; };
    signature.push_back(blocks_.colour[block]);
    signature.push_back(colour(wiring_.sender[block]));
    signature.push_back(colour(wiring_.receiver[block]));
    if (wiring_.blocks[block].sends) {
      signature.push_back(bits_of(setting_.latencies[block]));
      signature.push_back(bits_of(setting_.message_bytes[block]));
      signature.push_back(setting_.direct[block]);
    }
    for (size_t k = first_target_[block]; k < first_target_[block + 1]; ++k) signature.push_back(colour(targets_[k]));
    visit_uses(block, [&](uint32_t resource, Role role) {
      signature.push_back(uint64_t{resources_.colour[resource]} << 2 | role);
    });
  }

  void describe_resource(uint32_t resource, Signature& signature) const {
    signature.clear();
    for (size_t k = first_user_[resource]; k < first_user_[resource + 1]; ++k)
      signature.push_back(uint64_t{blocks_.colour[users_[k] >> 2]} << 2 | (users_[k] & 3));
    std::sort(signature.begin(), signature.end());
    signature.push_back(resources_.colour[resource]);
    signature.push_back(bits_of(setting_.capacities[resource]));
  }

  // Whether all that has one colour is really alike: names come from hashes, and this does not trust them.
  bool is_exact() const {
    Signature signature, other;
    for (uint32_t block = 0; block < num_blocks_; ++block) {
      const uint32_t first = blocks_.colour[block];
      if (first == block) continue;
      describe_block(block, signature);
      describe_block(first, other);
      if (signature != other || !has_same_program(block, first)) return false;
    }
    for (uint32_t resource = 0; resource < num_resources_; ++resource) {
      const uint32_t first = resources_.colour[resource];
      if (first == resource) continue;
      describe_resource(resource, signature);
      describe_resource(first, other);
      if (signature != other) return false;
    }
    return true;
  }

  std::span<const Job> jobs_;
  const Setting& setting_;
  const Wiring& wiring_;
  const FoldingRequest& request_;
  const size_t num_blocks_, num_resources_;
  std::vector<uint32_t> job_kind_, targets_, waiters_;
  std::vector<size_t> first_target_, first_waiter_, first_user_;
  std::vector<uint64_t> users_;       // block and role
  std::vector<uint64_t> users_hash_;  // of every resource: the sum over its users
  Colours blocks_, resources_;
};

}  // namespace

Folding fold(std::span<const Job> jobs, const Setting& setting, const Wiring& wiring, const FoldingRequest& request) {
  return Folder(jobs, setting, wiring, request).run();
}

}  // namespace hemiola::simulator
