#include <algorithm>
#include <numeric>

#include "fusion/step_model.h"

namespace hemiola::fusion {

namespace {

constexpr int kMostRounds = 3;

// Gradients by the group that makes them, and where the members of each unit begin.
struct Row {
  std::vector<int32_t> gradients, first;
  std::vector<double> bytes;
};

Row row_of(const Groups& groups, const std::vector<double>& gradient_bytes, bool apart) {
  Row row;
  row.gradients.resize(gradient_bytes.size());
  std::iota(row.gradients.begin(), row.gradients.end(), 0);
  const auto ready = [&](int32_t gradient) { return groups.ready[static_cast<size_t>(gradient)]; };
  std::ranges::stable_sort(row.gradients, {}, ready);
  for (size_t place = 0; place < row.gradients.size(); ++place) {
    const double bytes = gradient_bytes[static_cast<size_t>(row.gradients[place])];
    if (apart || place == 0 || ready(row.gradients[place]) != ready(row.gradients[place - 1])) {
      row.first.push_back(static_cast<int32_t>(place));
      row.bytes.push_back(bytes);
    } else {
      row.bytes.back() += bytes;
    }
  }
  row.first.push_back(static_cast<int32_t>(row.gradients.size()));
  return row;
}

// When each group ends if no message is under way, copies included.
std::vector<double> undisturbed_ends(const Groups& groups, const std::vector<double>& gradient_bytes, double copy) {
  std::vector<double> ends(groups.seconds.begin(), groups.seconds.end());
  for (size_t gradient = 0; gradient < gradient_bytes.size(); ++gradient)
    ends[static_cast<size_t>(groups.ready[gradient])] += copy * gradient_bytes[gradient];
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  return ends;
}

}  // namespace

MergedStep StepModel::merge_step(const Groups& groups, bool apart) const {
  const Row row = row_of(groups, bytes_, apart);
  std::vector<double> ends = undisturbed_ends(groups, bytes_, costs_.copy), ready(row.bytes.size());
  const bool disturbed = costs_.contention > 0 || costs_.call > 0;
  MergedStep best;
  for (int round = 0; round < (disturbed ? kMostRounds : 1); ++round) {
    for (size_t unit = 0; unit < ready.size(); ++unit) {
      const size_t gradient = static_cast<size_t>(row.gradients[static_cast<size_t>(row.first[unit])]);
      ready[unit] = ends[static_cast<size_t>(groups.ready[gradient])];
    }
    const Merged merged = merge(ready, row.bytes, ends.back());
    MergedStep found{0, {}, row.gradients};
    for (const int32_t unit : merged.first) found.first.push_back(row.first[static_cast<size_t>(unit)]);
    if (round > 0 && found.first == best.first) break;
    const std::vector<uint8_t> split(found.first.size() - 1, 0);
    const std::vector<int32_t> parts(split.size(), 1);
    const bool again = disturbed && round + 1 < kMostRounds;
    const StepResult step = evaluate(groups, {found.first, found.gradients, split, parts}, again);
    found.seconds = step.seconds;
    if (round == 0 || found.seconds < best.seconds) best = std::move(found);
    if (again)
      for (size_t group = 0; group < ends.size(); ++group) ends[group] = step.tasks[group].end;
  }
  return best;
}

}  // namespace hemiola::fusion
