// How far a reader is: felt by most of the latest lines taken back, and forgotten when it comes closer.
#include "runtime/reader_distance.h"

#include <random>

#include "test/check.h"

namespace hemiola::test {
namespace {

using runtime::ReaderDistance;

constexpr size_t kSmall = (16 << 10) - 1, kLarge = 16 << 10;
constexpr int64_t kSlow = 110, kQuick = 30, kAtOnce = 5;

ReaderDistance after(ReaderDistance distance, int num_lines, int64_t nanoseconds) {
  for (int k = 0; k < num_lines; ++k) distance.note(nanoseconds);
  return distance;
}

TEST(a_reader_is_near_until_it_is_known_to_be_far) {
  CHECK(!ReaderDistance().is_far() && !ReaderDistance().streams(kLarge));
  CHECK(!after({}, 2, kSlow).is_far(), "two lines are too few");
  CHECK(after({}, 8, kSlow).is_far());
}

TEST(an_interruption_says_nothing) { CHECK(!after({}, 100, 9'000'000).is_far()); }

TEST(a_reader_is_on_this_core_on_a_near_one_or_on_a_far_one) {
  CHECK(after({}, 8, kAtOnce).is_here() && !after({}, 8, kAtOnce).is_far());
  CHECK(!after({}, 8, kQuick).is_here() && !after({}, 8, kQuick).is_far());
  CHECK(!after({}, 8, kSlow).is_here());
}

TEST(a_reader_that_moves_is_followed) {
  const ReaderDistance far = after({}, 100, kSlow);
  CHECK(!after(far, 10, kQuick).is_far());
  CHECK(after(after(far, 100, kQuick), 8, kSlow).is_far());
}

TEST(single_lines_change_nothing) {
  std::mt19937 random(3);
  ReaderDistance far = after({}, 100, kSlow), near;
  for (int k = 0; k < 10'000; ++k) {
    far.note(random() % 20 == 0 ? kQuick : kSlow);
    near.note(random() % 20 == 0 ? kSlow : kQuick);
    CHECK(far.is_far() && !near.is_far(), "after line ", k);
  }
}

TEST(only_large_messages_to_far_readers_go_past_the_caches) {
  const ReaderDistance far = after({}, 100, kSlow), near = after({}, 100, kQuick);
  CHECK(far.streams(kLarge) && !far.streams(kSmall));
  CHECK(!near.streams(kLarge) && !near.streams(kSmall));
}

}  // namespace
}  // namespace hemiola::test
