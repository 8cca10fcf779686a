#pragma once

#include <cstdint>
#include <vector>

namespace hemiola::lab {

// Two devices between which frames pass both ways, each held back by a delay.
struct DelayLine {
  int near, far;  // descriptors that give and take one frame a call, and do not block
  int64_t delay;  // nanoseconds
};

struct DelayCounts {
  uint64_t carried = 0;
  uint64_t lost = 0;  // for which a device or the queue had no room
};

// Carries frames over all lines in the calling thread, until something can be read from `stop` or its other end closes.
DelayCounts carry_frames(const std::vector<DelayLine>& lines, int stop);

}  // namespace hemiola::lab
