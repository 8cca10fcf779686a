#include <algorithm>
#include <unordered_map>

#include "passes/passes.h"

namespace hemiola {
namespace {

// For each row, walks back from what it is known to follow (the row before it in its threadblock, and its
// own waits) along waits and threadblocks, and drops the waits that it meets. The walk has a budget: a wait
// that is not met in time stays, which costs a little time at run time and is never wrong.
class Reducer {
 public:
  Reducer(Instructions rows, std::span<const uint32_t> first, std::span<const uint32_t> on)
      : rows_(rows), first_(first), on_(on), before_(rows.size(), kNone), waiting_(rows.size(), kNone) {
    std::unordered_map<uint64_t, uint32_t> last;
    for (uint32_t i = 0; i < rows.size(); ++i) {
      const auto [at, is_new] = last.try_emplace(block(i), i);
      if (!is_new) before_[i] = at->second;
      at->second = i;
      waiting_[i] = first[i] < first[i + 1] ? i : before_[i] == kNone ? kNone : waiting_[before_[i]];
    }
  }

  Waits run() {
    Waits result;
    result.first.push_back(0);
    for (uint32_t i = 0; i < rows_.size(); ++i) {
      for (uint32_t wait : reduce(i)) result.on.push_back(wait);
      result.first.push_back(static_cast<uint32_t>(result.on.size()));
    }
    return result;
  }

 private:
  static constexpr int kBudget = 48;

  uint64_t block(uint32_t i) const {
    return uint64_t{rows_[i].rank} << 32 | static_cast<uint32_t>(rows_[i].threadblock);
  }

  const std::vector<uint32_t>& reduce(uint32_t i) {
    kept_.assign(on_.begin() + first_[i], on_.begin() + first_[i + 1]);
    if (kept_.empty()) return kept_;
    wait_on_.clear();  // threadblock -> the wait for it; there is one
    for (uint32_t wait : kept_) wait_on_[block(wait)] = wait;
    const uint32_t earliest = *std::ranges::min_element(kept_);
    if (before_[i] != kNone) walk(before_[i], earliest, kNone);
    for (uint32_t wait : kept_) {
      if (wait_on_.size() < 2) break;
      if (wait_on_.contains(block(wait))) walk(wait, earliest, wait);
    }
    std::erase_if(kept_, [&](uint32_t wait) { return !wait_on_.contains(block(wait)); });
    return kept_;
  }

  void walk(uint32_t from, uint32_t earliest, uint32_t self) {
    stack_.assign(1, from);
    for (int budget = kBudget; budget > 0 && !stack_.empty(); --budget) step(earliest, self);
  }

  // Takes a row off the stack: everything of its threadblock up to it has happened before.
  void step(uint32_t earliest, uint32_t self) {
    const uint32_t at = stack_.back();
    stack_.pop_back();
    const auto known = wait_on_.find(block(at));
    if (known != wait_on_.end() && known->second != self && known->second <= at) wait_on_.erase(known);
    const uint32_t waiting = waiting_[at];
    if (waiting == kNone || waiting < earliest) return;
    if (before_[waiting] != kNone && before_[waiting] >= earliest) stack_.push_back(before_[waiting]);
    for (uint32_t k = first_[waiting]; k < first_[waiting + 1]; ++k)
      if (on_[k] >= earliest) stack_.push_back(on_[k]);
  }

  Instructions rows_;
  std::span<const uint32_t> first_, on_;
  std::vector<uint32_t> before_;   // row -> the row before it in its threadblock
  std::vector<uint32_t> waiting_;  // row -> the last row of its threadblock up to it that waits
  std::vector<uint32_t> kept_, stack_;
  std::unordered_map<uint64_t, uint32_t> wait_on_;
};

}  // namespace

Waits drop_redundant_dependencies(Instructions instructions, std::span<const uint32_t> first,
                                  std::span<const uint32_t> on) {
  return Reducer(instructions, first, on).run();
}

}  // namespace hemiola
