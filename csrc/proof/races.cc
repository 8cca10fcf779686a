#include <algorithm>
#include <unordered_map>

#include "lists.h"
#include "pieces.h"
#include "proof/proof.h"

namespace hemiola {
namespace {

// Who happens before whom, asked only about conflicting steps of one rank. Most questions are answered by
// what the later step's threadblock has already waited for; the rest by walking back from the later step,
// first within the rank, then along messages too. Every edge points forward in the order of the run, so the
// walk never goes behind the earlier step. Answers are remembered for the two threadblocks. A step may begin
// before the steps that feed it chunk by chunk have ended, so the messages that the later step itself takes
// do not count as ended; what their senders had to wait for does.
class HappensBefore {
 public:
  HappensBefore(const PlacedPlan& plan, const Connections& connections, const std::vector<uint32_t>& order)
      : plan_(plan),
        connections_(connections),
        position_(plan.steps.size()),
        block_of_(plan.steps.size()),
        entry_(plan.steps.size(), kNone),
        visited_(plan.steps.size(), 0),
        met_(plan.threadblocks.size()) {
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

  // What is known without a walk.
  bool is_known(uint32_t earlier, uint32_t later) const {
    if (block_of_[earlier] == block_of_[later]) return true;
    const auto known = known_.find(key(later, earlier));
    return known != known_.end() && known->second >= earlier;
  }

  // Walks back from the later step, no further than the earliest of those that are asked about.
  void explore(uint32_t later, uint32_t earliest, bool along_messages) {
    ++question_;
    stack_.clear();
    for (uint32_t at = later; at != kNone && position_[at] >= position_[earliest];) {
      push_before(at, earliest);
      const bool one_chunk = plan_.steps[at].count == 1;
      at = along_messages ? connections_.matching_send[at] : kNone;
      if (at != kNone && one_chunk) {
        push(at, earliest);
        break;
      }
    }
    while (!stack_.empty()) {
      const uint32_t at = stack_.back();
      stack_.pop_back();
      Met& met = met_[block_of_[at]];
      met = {question_, met.question == question_ ? std::max(met.step, at) : at};
      const uint32_t entry = entry_[at];
      if (entry == kNone || visited_[entry] == question_ || position_[entry] < position_[earliest]) continue;
      visited_[entry] = question_;
      push_before(entry, earliest);
      if (along_messages && connections_.matching_send[entry] != kNone)
        push(connections_.matching_send[entry], earliest);
    }
  }

  // Whether the last walk, from the later step, met the earlier one; if so, that is known from then on.
  bool was_met(uint32_t earlier, uint32_t later) {
    const Met& met = met_[block_of_[earlier]];
    if (met.question != question_ || met.step < earlier) return false;
    learn(later, earlier);
    return true;
  }

  bool is_earlier(uint32_t a, uint32_t b) const { return position_[a] < position_[b]; }

  // Whether the earlier step's message reaches the later step directly or through steps that send it on.
  bool streams(uint32_t earlier, uint32_t later) const {
    uint32_t at = later;
    while (at != kNone && at != earlier && position_[at] > position_[earlier]) at = connections_.matching_send[at];
    return at == earlier;
  }

 private:
  uint64_t key(uint32_t later, uint32_t earlier) const { return uint64_t{block_of_[later]} << 32 | block_of_[earlier]; }

  void learn(uint32_t later, uint32_t earlier) {
    uint32_t& known = known_.try_emplace(key(later, earlier), earlier).first->second;
    known = std::max(known, earlier);
  }

  // What must have ended before a step begins, messages aside.
  void push_before(uint32_t step, uint32_t earlier) {
    const Threadblock& block = plan_.threadblocks[block_of_[step]];
    if (step > block.first_step) push(step - 1, earlier);
    for (uint32_t k = plan_.steps[step].first_dependency; k < plan_.end_of_waits(step); ++k)
      push(plan_.awaited(block.rank, plan_.dependencies[k]), earlier);
  }

  void push(uint32_t step, uint32_t earlier) {
    if (position_[step] >= position_[earlier]) stack_.push_back(step);
  }

  const PlacedPlan& plan_;
  const Connections& connections_;
  std::vector<uint32_t> position_;  // step -> place in the run
  std::vector<uint32_t> block_of_;
  std::vector<uint32_t> entry_;  // step -> the last one of its threadblock, up to it, that others lead to
  std::vector<uint32_t> visited_, stack_;
  struct Met {
    uint32_t question = 0, step = 0;  // the last step of a threadblock that this walk met
  };
  std::vector<Met> met_;
  uint32_t question_ = 0;
  std::unordered_map<uint64_t, uint32_t> known_;
};

class RaceFinder {
 public:
  RaceFinder(const PlacedPlan& plan, const Connections& connections, const std::vector<uint32_t>& order, size_t limit)
      : plan_(plan), before_(plan, connections, order), limit_(limit), pieces_(plan.layout->size(), plan.steps.size()) {
    accesses_.reserve(plan.steps.size());
    for (uint32_t step = 0; step < plan.steps.size(); ++step) accesses_.push_back(access_of(step));
    for (uint32_t step = 0; step < plan.steps.size(); ++step) {
      const Access& access = accesses_[step];
      if (access.reads_source) pieces_.cut(access.source, plan.steps[step].count);
      if (access.uses_destination) pieces_.cut(access.destination, plan.steps[step].count);
    }
    pieces_.finish();
    for (uint32_t step = 0; step < plan.steps.size(); ++step) {
      const Access& access = accesses_[step];
      const uint32_t count = plan.steps[step].count;
      if (access.reads_source) looked_at_ += length(pieces_.range(access.source, count));
      if (access.uses_destination) looked_at_ += length(pieces_.range(access.destination, count));
    }
    if (is_too_large()) return;
    writer_.assign(pieces_.size(), {});
    readers_ = Lists<Touch>(pieces_.size());
  }

  bool is_too_large() const { return looked_at_ > kMostPieces; }

  std::vector<Race> run(const std::vector<uint32_t>& order) {
    for (uint32_t step : order) {
      if (races_.size() >= limit_) break;
      before_.announce(step);
      visit(step);
    }
    return std::move(races_);
  }

 private:
  static constexpr uint64_t kMostPieces = uint64_t{1} << 26;
  static uint64_t length(Range range) { return range.end - range.first; }

  struct Access {
    uint32_t source, destination;  // first chunks
    bool reads_source, uses_destination;
  };
  struct Touch {
    uint32_t step = kNone, offset = 0;  // the piece's first chunk is this one of the step's range
  };

  Access access_of(uint32_t step) const {
    const Step& s = plan_.steps[step];
    const OpcodeTraits& t = traits(s.opcode);
    const uint32_t rank = plan_.threadblocks[before_.block_of(step)].rank;
    return {t.reads_source ? plan_.chunk(plan_.source(rank, s)) : 0,
            t.writes_destination ? plan_.chunk(plan_.destination(rank, s)) : 0, t.reads_source, t.writes_destination};
  }

  // All reads of a step come before its writes; a step does not conflict with itself.
  void visit(uint32_t step) {
    const Access& access = accesses_[step];
    const uint32_t count = plan_.steps[step].count;
    if (access.reads_source) read(step, access.source, count);
    if (traits(plan_.steps[step].opcode).reads_destination) read(step, access.destination, count);
    if (access.uses_destination) write(step, access.destination, count);
  }

  void read(uint32_t step, uint32_t chunk, uint32_t count) {
    const Range range = pieces_.range(chunk, count);
    for (uint32_t k = range.first; k < range.end; ++k) {
      const Touch here{step, pieces_.start(k) - chunk};
      ask(writer_[k], true, here, false, k);
      readers_.push_back(k, here);
    }
    answer(step);
  }

  void write(uint32_t step, uint32_t chunk, uint32_t count) {
    const Range range = pieces_.range(chunk, count);
    for (uint32_t k = range.first; k < range.end; ++k) {
      const Touch here{step, pieces_.start(k) - chunk};
      ask(writer_[k], true, here, true, k);
      readers_.each(k, [&](const Touch& reader) { ask(reader, false, here, true, k); });
      readers_.clear(k);
      writer_[k] = here;
    }
    answer(step);
  }

  struct Question {
    Touch earlier, later;
    uint32_t piece;
    bool earlier_writes, later_writes;
  };

  void ask(Touch earlier, bool earlier_writes, Touch later, bool later_writes, uint32_t piece) {
    if (earlier.step == kNone || earlier.step == later.step || before_.is_known(earlier.step, later.step)) return;
    questions_.push_back({earlier, later, piece, earlier_writes, later_writes});
  }

  // One walk within the rank answers most of a step's questions, one along messages the rest.
  void answer(uint32_t step) {
    for (bool along_messages : {false, true}) {
      if (questions_.empty()) return;
      const auto first = std::ranges::min_element(questions_, [&](const Question& a, const Question& b) {
        return before_.is_earlier(a.earlier.step, b.earlier.step);
      });
      before_.explore(step, first->earlier.step, along_messages);
      std::erase_if(questions_, [&](const Question& q) { return before_.was_met(q.earlier.step, step); });
    }
    for (const Question& q : questions_) {
      if (q.earlier.offset <= q.later.offset && before_.streams(q.earlier.step, step)) continue;
      const uint32_t rank = plan_.threadblocks[before_.block_of(step)].rank;
      if (races_.size() < limit_)
        races_.push_back({q.earlier.step, step, rank, pieces_.start(q.piece), q.earlier_writes, q.later_writes});
    }
    questions_.clear();
  }

  const PlacedPlan& plan_;
  HappensBefore before_;
  size_t limit_;
  Pieces pieces_;
  uint64_t looked_at_ = 0;        // pieces, over all steps
  std::vector<Access> accesses_;  // of every step
  std::vector<Touch> writer_;
  Lists<Touch> readers_;  // of every piece, since it was written last
  std::vector<Race> races_;
  std::vector<Question> questions_;
};

}  // namespace

std::optional<std::vector<Race>> find_races(const PlacedPlan& plan, const Connections& connections,
                                            const std::vector<uint32_t>& order, size_t limit) {
  RaceFinder finder(plan, connections, order, limit);
  if (finder.is_too_large()) return std::nullopt;
  return finder.run(order);
}

std::vector<uint32_t> find_overlaps(const PlacedPlan& plan, size_t limit) {
  std::vector<uint32_t> found;
  for (uint32_t block = 0; block < plan.threadblocks.size(); ++block) {
    const uint32_t rank = plan.threadblocks[block].rank;
    for (uint32_t step = plan.threadblocks[block].first_step; step < plan.end_of_block(block); ++step) {
      const Step& s = plan.steps[step];
      if (!traits(s.opcode).reads_source || !traits(s.opcode).writes_destination) continue;
      const uint32_t src = plan.chunk(plan.source(rank, s)), dst = plan.chunk(plan.destination(rank, s));
      if (src != dst && src < dst + s.count && dst < src + s.count && found.size() < limit) found.push_back(step);
    }
  }
  return found;
}

}  // namespace hemiola
