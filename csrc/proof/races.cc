#include <algorithm>
#include <unordered_map>

#include "proof/proof.h"

namespace hemiola {
namespace {

// Who happens before whom, asked only about conflicting steps of one rank. Most questions are answered by
// what the later step's threadblock has already waited for; the rest by walking back from the later step,
// first within the rank, then along messages too. Every edge points forward in the order of the run, so the
// walk never goes behind the earlier step. An answer is remembered for the two threadblocks.
class HappensBefore {
 public:
  HappensBefore(const PlanView& plan, const Connections& connections, const std::vector<uint32_t>& order)
      : plan_(plan), connections_(connections), position_(plan.steps.size()), block_of_(plan.steps.size()),
        entry_(plan.steps.size(), kNone), visited_(plan.steps.size(), 0) {
    for (uint32_t i = 0; i < order.size(); ++i) position_[order[i]] = i;
    for (uint32_t block = 0; block < plan.threadblocks.size(); ++block) {
      uint32_t entry = kNone;
      for (uint32_t step = plan.threadblocks[block].first_step; step < plan.end_of_block(block); ++step) {
        const bool waits = plan.steps[step].first_dependency < plan.end_of_waits(step);
        if (waits || connections.matching_send[step] != kNone) entry = step;
        entry_[step] = entry;
        block_of_[step] = block;
      }
    }
  }

  uint32_t block_of(uint32_t step) const { return block_of_[step]; }

  // Steps must be announced in the order of the run, before anything is asked about them.
  void announce(uint32_t step) {
    const uint32_t rank = plan_.threadblocks[block_of_[step]].rank;
    for (uint32_t k = plan_.steps[step].first_dependency; k < plan_.end_of_waits(step); ++k)
      learn(step, plan_.awaited(rank, plan_.dependencies[k]));
  }

  bool ordered(uint32_t earlier, uint32_t later) {
    if (block_of_[earlier] == block_of_[later]) return true;
    const auto known = known_.find(key(later, earlier));
    if (known != known_.end() && known->second >= earlier) return true;
    if (!reaches(earlier, later, false) && !reaches(earlier, later, true)) return false;
    learn(later, earlier);
    return true;
  }

 private:
  uint64_t key(uint32_t later, uint32_t earlier) const {
    return uint64_t{block_of_[later]} << 32 | block_of_[earlier];
  }

  void learn(uint32_t later, uint32_t earlier) {
    uint32_t& known = known_.try_emplace(key(later, earlier), earlier).first->second;
    known = std::max(known, earlier);
  }

  bool reaches(uint32_t earlier, uint32_t later, bool along_messages) {
    ++question_;
    stack_.assign(1, later);
    while (!stack_.empty()) {
      const uint32_t at = stack_.back();
      stack_.pop_back();
      if (block_of_[at] == block_of_[earlier] && at >= earlier) return true;
      const uint32_t entry = entry_[at];
      if (entry == kNone || visited_[entry] == question_ || position_[entry] < position_[earlier]) continue;
      visited_[entry] = question_;
      const uint32_t block = block_of_[entry];
      if (entry > plan_.threadblocks[block].first_step) push(entry - 1, earlier);
      for (uint32_t k = plan_.steps[entry].first_dependency; k < plan_.end_of_waits(entry); ++k)
        push(plan_.awaited(plan_.threadblocks[block].rank, plan_.dependencies[k]), earlier);
      if (along_messages && connections_.matching_send[entry] != kNone) push(connections_.matching_send[entry], earlier);
    }
    return false;
  }

  void push(uint32_t step, uint32_t earlier) {
    if (position_[step] >= position_[earlier]) stack_.push_back(step);
  }

  const PlanView& plan_;
  const Connections& connections_;
  std::vector<uint32_t> position_;  // step -> place in the run
  std::vector<uint32_t> block_of_;
  std::vector<uint32_t> entry_;  // step -> the last one of its threadblock, up to it, that others lead to
  std::vector<uint32_t> visited_, stack_;
  uint32_t question_ = 0;
  std::unordered_map<uint64_t, uint32_t> known_;
};

class RaceFinder {
 public:
  RaceFinder(const PlanView& plan, const Connections& connections, const std::vector<uint32_t>& order, size_t limit)
      : plan_(plan), before_(plan, connections, order), limit_(limit), writer_(plan.layout->size(), kNone),
        readers_(plan.layout->size()) {}

  std::vector<Race> run(const std::vector<uint32_t>& order) {
    for (uint32_t step : order) {
      if (races_.size() >= limit_) break;
      before_.announce(step);
      visit(step);
    }
    return std::move(races_);
  }

 private:
  // All reads of a step come before its writes; a step does not conflict with itself.
  void visit(uint32_t step) {
    const Step& s = plan_.steps[step];
    const OpcodeTraits& t = traits(s.opcode);
    const uint32_t rank = plan_.threadblocks[before_.block_of(step)].rank;
    if (t.reads_source) read(step, rank, plan_.source(rank, s), s.count);
    if (t.reads_destination) read(step, rank, plan_.destination(rank, s), s.count);
    if (t.writes_destination) write(step, rank, plan_.destination(rank, s), s.count);
  }

  void read(uint32_t step, uint32_t rank, uint32_t chunk, uint32_t count) {
    for (uint32_t k = 0; k < count; ++k) {
      check(writer_[chunk + k], true, step, false, rank, chunk + k);
      readers_[chunk + k].push_back(step);
    }
  }

  void write(uint32_t step, uint32_t rank, uint32_t chunk, uint32_t count) {
    for (uint32_t k = 0; k < count; ++k) {
      check(writer_[chunk + k], true, step, true, rank, chunk + k);
      for (uint32_t reader : readers_[chunk + k]) check(reader, false, step, true, rank, chunk + k);
      readers_[chunk + k].clear();
      writer_[chunk + k] = step;
    }
  }

  void check(uint32_t earlier, bool earlier_writes, uint32_t later, bool later_writes, uint32_t rank, uint32_t chunk) {
    if (earlier == kNone || earlier == later || before_.ordered(earlier, later)) return;
    if (races_.size() < limit_) races_.push_back({earlier, later, rank, chunk, earlier_writes, later_writes});
  }

  const PlanView& plan_;
  HappensBefore before_;
  size_t limit_;
  std::vector<uint32_t> writer_;
  std::vector<std::vector<uint32_t>> readers_;
  std::vector<Race> races_;
};

}  // namespace

std::vector<Race> find_races(const PlanView& plan, const Connections& connections,
                             const std::vector<uint32_t>& order, size_t limit) {
  return RaceFinder(plan, connections, order, limit).run(order);
}

std::vector<uint32_t> find_overlaps(const PlanView& plan, size_t limit) {
  std::vector<uint32_t> found;
  for (uint32_t block = 0; block < plan.threadblocks.size(); ++block) {
    const uint32_t rank = plan.threadblocks[block].rank;
    for (uint32_t step = plan.threadblocks[block].first_step; step < plan.end_of_block(block); ++step) {
      const Step& s = plan.steps[step];
      if (!traits(s.opcode).reads_source || !traits(s.opcode).writes_destination) continue;
      const uint32_t src = plan.source(rank, s), dst = plan.destination(rank, s);
      if (src != dst && src < dst + s.count && dst < src + s.count && found.size() < limit) found.push_back(step);
    }
  }
  return found;
}

}  // namespace hemiola
