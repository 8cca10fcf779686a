#include "lab/delay_line.h"

#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <deque>
#include <system_error>

#include "runtime/clock.h"

namespace hemiola::lab {

namespace {

constexpr size_t kMaxFrame = 1 << 16;
constexpr size_t kMaxQueued = 64 << 20;  // bytes on their way in one direction: a second at 500 Mbit/s
constexpr int kReadsInTurn = 64;         // so that one busy line does not delay the others

struct Frame {
  int64_t due;
  std::vector<char> bytes;
};

struct Direction {
  int from, to;
  int64_t delay;
  std::deque<Frame> frames = {};
  size_t num_bytes = 0;
};

using Buffer = std::array<char, kMaxFrame>;

void take_in(Direction& way, Buffer& buffer, DelayCounts& counts) {
  for (int i = 0; i < kReadsInTurn; ++i) {
    const ssize_t length = read(way.from, buffer.data(), buffer.size());
    if (length <= 0) return;
    if (way.num_bytes + static_cast<size_t>(length) > kMaxQueued) {
      ++counts.lost;
      continue;
    }
    way.num_bytes += static_cast<size_t>(length);
    way.frames.push_back({runtime::now() + way.delay, {buffer.data(), buffer.data() + length}});
  }
}

void hand_on(Direction& way, int64_t time, DelayCounts& counts) {
  while (!way.frames.empty() && way.frames.front().due <= time) {
    const std::vector<char>& bytes = way.frames.front().bytes;
    const bool taken = write(way.to, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
    ++(taken ? counts.carried : counts.lost);
    way.num_bytes -= bytes.size();
    way.frames.pop_front();
  }
}

timespec until_first_due(const std::vector<Direction>& ways) {
  int64_t first = INT64_MAX;
  for (const Direction& way : ways)
    if (!way.frames.empty()) first = std::min(first, way.frames.front().due);
  const int64_t rest = first == INT64_MAX ? 1'000'000'000 : std::max<int64_t>(first - runtime::now(), 0);
  return {rest / 1'000'000'000, rest % 1'000'000'000};
}

}  // namespace

DelayCounts carry_frames(const std::vector<DelayLine>& lines, int stop) {
  prctl(PR_SET_TIMERSLACK, 1);  // by default a sleep lasts 50 us longer than asked for
  std::vector<Direction> ways;
  for (const DelayLine& line : lines) {
    ways.push_back({line.near, line.far, line.delay});
    ways.push_back({line.far, line.near, line.delay});
  }
  std::vector<pollfd> polled;
  polled.reserve(ways.size() + 1);
  for (const Direction& way : ways) polled.push_back({way.from, POLLIN, 0});
  polled.push_back({stop, POLLIN, 0});
  DelayCounts counts;
  Buffer buffer;
  while (true) {
    const timespec rest = until_first_due(ways);
    if (ppoll(polled.data(), polled.size(), &rest, nullptr) < 0 && errno != EINTR)
      throw std::system_error(errno, std::generic_category(), "ppoll");
    if (polled.back().revents != 0) return counts;
    for (size_t i = 0; i < ways.size(); ++i)
      if (polled[i].revents != 0) take_in(ways[i], buffer, counts);
    const int64_t time = runtime::now();
    for (Direction& way : ways) hand_on(way, time, counts);
  }
}

}  // namespace hemiola::lab
