#include <algorithm>
#include <cmath>

#include "enforce.h"
#include "fusion/step_model.h"

namespace hemiola::fusion {

namespace {

// A cut of the first gradients of a row: when its last message and its last optimizer end, and how it came about.
struct Cut {
  double sent, updated;
  int32_t first, previous;  // the first gradient of its last bucket, and the number of the cut before that
};

// Cuts of one length of which no other is as early in both respects.
void add(std::vector<Cut>& front, const Cut& cut) {
  for (const Cut& other : front)
    if (other.sent <= cut.sent && other.updated <= cut.updated) return;
  std::erase_if(front, [&](const Cut& other) { return cut.sent <= other.sent && cut.updated <= other.updated; });
  front.push_back(cut);
}

}  // namespace

// Both ends grow with those of the cut before, so the best cuts of a length are made of the best of shorter lengths.
Merged StepModel::merge(std::span<const double> ready, std::span<const double> bytes, double groups_end) const {
  ENFORCE(ready.size() == bytes.size() && std::ranges::is_sorted(ready));
  const size_t count = ready.size();
  std::vector<std::vector<Cut>> fronts(count + 1);
  fronts[0].push_back({0, groups_end, 0, kNone});
  for (size_t end = 1; end <= count; ++end) {
    double total = 0;
    for (size_t first = end; first-- > 0;) {
      total += bytes[first];
      const double seconds = costs_.allreduce.at(total);
      const double optimizer = costs_.optimizer_call + costs_.optimizer * total;
      for (size_t number = 0; number < fronts[first].size(); ++number) {
        const Cut& before = fronts[first][number];
        const double sent = std::max(before.sent, ready[end - 1]) + seconds;
        add(fronts[end], {sent, std::max(before.updated, sent) + optimizer, static_cast<int32_t>(first),
                          static_cast<int32_t>(number)});
      }
    }
  }
  const auto& last = fronts[count];
  const auto best = std::ranges::min_element(last, {}, &Cut::updated);
  Merged merged{best->updated, {static_cast<int32_t>(count)}};
  for (Cut cut = *best; merged.first.back() > 0;) {
    merged.first.push_back(cut.first);
    cut = fronts[static_cast<size_t>(cut.first)][static_cast<size_t>(std::max(cut.previous, 0))];
  }
  std::ranges::reverse(merged.first);
  return merged;
}

}  // namespace hemiola::fusion
