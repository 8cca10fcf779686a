// The law of when a step may run.
#include "step_law.h"

#include "test/check.h"

namespace hemiola::test {
namespace {

TEST(both_ways_of_counting_progress_agree) {
  for (uint64_t num_steps = 1; num_steps <= 4; ++num_steps)
    for (uint64_t ended = 0; ended <= 3 * num_steps; ++ended)
      for (uint64_t k = 0; k < 3 * num_steps; ++k) {
        const StepOfTile awaited{k / num_steps, k % num_steps}, next{ended / num_steps, ended % num_steps};
        CHECK(has_ended(awaited, next) == (k < ended));
        CHECK(has_ended(awaited, num_steps, ended) == (k < ended));
      }
}

TEST(a_connection_holds_as_many_messages_as_it_has_slots) {
  for (uint64_t received = 0; received < 3; ++received)
    for (uint64_t waiting = 0; waiting <= 2; ++waiting) {
      CHECK(has_message(received + waiting, received) == (waiting > 0));
      CHECK(has_slot(received + waiting, received, 2) == (waiting < 2));
    }
}

}  // namespace
}  // namespace hemiola::test
