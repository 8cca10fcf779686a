// PriceTable: seconds of a message by its bytes, as straight lines between known sizes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace hemiola::fusion {

struct PriceTable {
  std::vector<double> sizes, seconds;  // sizes ascend; there is at least one
  double slope = 0;                    // seconds of every further byte beyond the last size

  // Nothing takes no time; anything up to the first size takes what that takes.
  double at(double bytes) const {
    if (bytes <= 0) return 0;
    const auto above = std::upper_bound(sizes.begin(), sizes.end(), bytes);
    if (above == sizes.begin()) return seconds.front();
    const size_t low = static_cast<size_t>(above - sizes.begin()) - 1;
    const double beyond = bytes - sizes[low];
    if (above == sizes.end()) return seconds[low] + beyond * slope;
    return seconds[low] + beyond * (seconds[low + 1] - seconds[low]) / (sizes[low + 1] - sizes[low]);
  }
};

}  // namespace hemiola::fusion
