#include <algorithm>

#include "enforce.h"
#include "passes/passes.h"

namespace hemiola {
namespace {

// For each row, walks back from what it is known to follow (the row before it in its threadblock, and its
// own waits) along waits and threadblocks, and drops the waits that it meets. The walk has a budget: a wait
// that is not met in time stays, which costs a little time at run time and is never wrong.
//
// A walk stays within its rank, but the rows of a rank are scattered over the table. So the rows are put
// together by rank first: what a walk touches then lies side by side and stays in the cache. Within a rank the
// order stays, so that "earlier" means the same for places as for rows.
class Reducer {
 public:
  Reducer(Instructions rows, std::span<const uint32_t> first, std::span<const uint32_t> on)
      : first_(first), place_(rows.size()), placed_(rows.size()), waits_(on.size()), dropped_(on.size(), 0) {
    put_together(rows);
    size_t at = 0;
    for (uint32_t i = 0; i < rows.size(); ++i) row_at_[place_[i]] = i;
    std::vector<uint32_t> last(num_threadblocks_, kNone);
    for (uint32_t place = 0; place < rows.size(); ++place) {
      const uint32_t row = row_at_[place];
      if (place > 0 && rows[row].rank != rows[row_at_[place - 1]].rank) std::ranges::fill(last, kNone);
      Row& here = placed_[place];
      here.threadblock = static_cast<uint32_t>(rows[row].threadblock);
      here.before = last[here.threadblock];
      here.first = static_cast<uint32_t>(at);
      for (uint32_t k = first[row]; k < first[row + 1]; ++k) waits_[at++] = place_[on[k]];
      here.end = static_cast<uint32_t>(at);
      here.waiting = here.first < here.end ? place : here.before == kNone ? kNone : placed_[here.before].waiting;
      last[here.threadblock] = place;
    }
    wait_on_.assign(num_threadblocks_, kNone);
  }

  Waits run(std::span<const uint32_t> on) {
    for (uint32_t place = 0; place < placed_.size(); ++place) reduce(place);
    Waits result;
    result.first.reserve(placed_.size() + 1);
    result.first.push_back(0);
    for (uint32_t i = 0; i < placed_.size(); ++i) {
      for (uint32_t k = 0; k < first_[i + 1] - first_[i]; ++k)
        if (dropped_[placed_[place_[i]].first + k] == 0) result.on.push_back(on[first_[i] + k]);
      result.first.push_back(static_cast<uint32_t>(result.on.size()));
    }
    return result;
  }

 private:
  static constexpr int kBudget = 48;

  struct Row {
    uint32_t threadblock;
    uint32_t before;      // the row before it in its threadblock
    uint32_t waiting;     // the last row of its threadblock up to it that waits
    uint32_t first, end;  // of its waits in waits_
  };

  // Gives every row its place: by rank, in the order of the table.
  void put_together(Instructions rows) {
    std::vector<uint32_t> next;
    for (const Instruction& row : rows) {
      ENFORCE(row.threadblock >= 0, "a row of rank ", row.rank, " has no threadblock");
      num_threadblocks_ = std::max(num_threadblocks_, static_cast<uint32_t>(row.threadblock) + 1);
      if (row.rank + 2 > next.size()) next.resize(row.rank + 2, 0);
      ++next[row.rank + 1];
    }
    for (size_t rank = 1; rank < next.size(); ++rank) next[rank] += next[rank - 1];
    for (uint32_t i = 0; i < rows.size(); ++i) place_[i] = next[rows[i].rank]++;
    row_at_.resize(rows.size());
  }

  void reduce(uint32_t place) {
    const Row& here = placed_[place];
    if (here.first == here.end) return;
    const std::span<const uint32_t> waits(waits_.data() + here.first, here.end - here.first);
    num_waits_ = 0;
    for (uint32_t wait : waits) {
      uint32_t& known = wait_on_[placed_[wait].threadblock];
      if (known == kNone) ++num_waits_;
      known = wait;
    }
    const uint32_t earliest = *std::ranges::min_element(waits);
    if (here.before != kNone) walk(here.before, earliest, kNone);
    for (uint32_t wait : waits) {
      if (num_waits_ < 2) break;
      if (wait_on_[placed_[wait].threadblock] != kNone) walk(wait, earliest, wait);
    }
    for (uint32_t k = here.first; k < here.end; ++k) dropped_[k] = wait_on_[placed_[waits_[k]].threadblock] == kNone;
    for (uint32_t wait : waits) wait_on_[placed_[wait].threadblock] = kNone;
  }

  void walk(uint32_t from, uint32_t earliest, uint32_t self) {
    stack_.assign(1, from);
    for (int budget = kBudget; budget > 0 && !stack_.empty() && num_waits_ > 0; --budget) step(earliest, self);
  }

  // Takes a row off the stack: everything of its threadblock up to it has happened before.
  void step(uint32_t earliest, uint32_t self) {
    const uint32_t at = stack_.back();
    stack_.pop_back();
    uint32_t& known = wait_on_[placed_[at].threadblock];
    if (known != kNone && known != self && known <= at) {
      known = kNone;
      --num_waits_;
    }
    if (placed_[at].waiting == kNone || placed_[at].waiting < earliest) return;
    const Row& waiting = placed_[placed_[at].waiting];
    if (waiting.before != kNone && waiting.before >= earliest) stack_.push_back(waiting.before);
    for (uint32_t k = waiting.first; k < waiting.end; ++k)
      if (waits_[k] >= earliest) stack_.push_back(waits_[k]);
  }

  std::span<const uint32_t> first_;
  std::vector<uint32_t> place_, row_at_;  // row -> place, and back
  std::vector<Row> placed_;
  std::vector<uint32_t> waits_;    // of every place, the places that it waits for
  std::vector<uint8_t> dropped_;   // as waits_
  std::vector<uint32_t> wait_on_;  // threadblock -> the wait for it that is left, while a row is reduced
  uint32_t num_threadblocks_ = 0, num_waits_ = 0;
  std::vector<uint32_t> stack_;
};

}  // namespace

Waits drop_redundant_dependencies(Instructions instructions, std::span<const uint32_t> first,
                                  std::span<const uint32_t> on) {
  return Reducer(instructions, first, on).run(on);
}

}  // namespace hemiola
