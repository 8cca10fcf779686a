// What happens to all ranks when one fails, is late, leaves or calls something else.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "runtime/clock.h"
#include "test/calls.h"

namespace hemiola::test {
namespace {

using runtime::Endpoint, runtime::FailureKind;

TEST(a_rank_that_finds_an_invariant_broken_ends_the_run_of_all) {
  for (const uint32_t workers : {1u, 2u}) {
    Group group(3, {.workers = workers});
    const auto parts = ring_parts(3);
    std::vector<std::byte> elsewhere(2048);
    group.endpoint(0).send_end({1, 0}).exchange_buffer(~uint64_t{0}, elsewhere.data(),
                                                       0);  // a buffer that no other rank has
    on_all(3, [&](uint32_t rank) {
      Numbers data = input_of(rank, 100);
      const Failure failure = run_ring(group, rank, parts[rank], call_of(100), data);
      CHECK(failure.kind != FailureKind::none, "rank ", rank);
    });
  }
}

// What every rank got from a run; the ranks in `absent` do something else meanwhile.
struct Outcomes {
  std::vector<Failure> failures;
  double seconds = 0;
};

template <typename Other>
Outcomes run_with_failure(Group& group, const std::vector<Part>& parts, uint32_t guilty, Other other,
                          uint64_t elements = 10'000) {
  Outcomes outcomes{std::vector<Failure>(group.num_ranks())};
  const int64_t begin = runtime::now();
  on_all(group.num_ranks(), [&](uint32_t rank) {
    if (rank == guilty) {
      other(outcomes.failures[rank]);
      return;
    }
    Numbers data = input_of(rank, elements);
    outcomes.failures[rank] = run_ring(group, rank, parts[rank], call_of(elements, 1, "the right call"), data);
  });
  outcomes.seconds = static_cast<double>(runtime::now() - begin) * 1e-9;
  return outcomes;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const std::vector<std::vector<uint32_t>> kLayouts = {{}, {0, 0, 1}, {0, 1, 2}};

TEST(a_rank_that_gives_up_ends_the_run_of_all) {
  for (const auto& hosts : kLayouts)
    for (const uint32_t workers : {1u, 2u}) {
      Group group(3, {.workers = workers, .hosts = hosts});
      const auto outcomes = run_with_failure(group, ring_parts(3), 1, [&](Failure& failure) {
        failure = group.endpoint(1).fail({FailureKind::internal, 1, "the disk is full"});
      });
      for (const uint32_t rank : {0u, 2u}) {
        const Failure& failure = outcomes.failures[rank];
        CHECK(failure.kind == FailureKind::peer_lost && failure.rank == 1, failure.text);
        CHECK(contains(failure.text, "rank 1 gave up") && contains(failure.text, "the disk is full"), failure.text);
      }
      CHECK(outcomes.failures[1].kind == FailureKind::internal);
    }
}

TEST(after_a_failure_nothing_runs_any_more) {
  Group group(2);
  const auto parts = ring_parts(2);
  group.endpoint(0).fail({FailureKind::internal, 0, "it is over"});
  on_all(2, [&](uint32_t rank) {
    for (int k = 0; k < 3; ++k) {
      Numbers data = input_of(rank, 10);
      const Failure failure = run_ring(group, rank, parts[rank], call_of(10), data);
      CHECK(failure && contains(failure.text, "it is over"));
      CHECK(data == input_of(rank, 10), "nothing may have moved");
    }
  });
}

TEST(the_first_of_several_failures_is_everybodys) {
  for (int round = 0; round < 50; ++round) {
    Group group(4);
    std::vector<Failure> seen(4);
    on_all(4, [&](uint32_t rank) {
      group.endpoint(rank).fail({FailureKind::mismatch, static_cast<int32_t>(rank), "of " + std::to_string(rank)});
    });
    for (uint32_t rank = 0; rank < 4; ++rank) {
      const Failure failure = group.endpoint(rank).failure();
      CHECK(failure.kind == FailureKind::mismatch && failure.text == "of " + std::to_string(failure.rank));
    }
  }
}

TEST(a_timeout_names_the_rank_that_did_not_come) {
  for (const auto& hosts : kLayouts)
    for (const uint32_t workers : {1u, 2u}) {
      Group group(3, {.workers = workers, .timeout_seconds = 0.3, .hosts = hosts});
      const auto outcomes = run_with_failure(group, ring_parts(3), 2, [&](Failure&) {
        while (!group.endpoint(0).has_failed() || !group.endpoint(1).has_failed()) sched_yield();
      });
      for (const uint32_t rank : {0u, 1u}) {
        const Failure& failure = outcomes.failures[rank];
        CHECK(failure.kind == FailureKind::peer_lost && failure.rank == 2, "rank ", rank, ": ", failure.text);
        CHECK(contains(failure.text, "rank 2 did not answer") && contains(failure.text, "the right call"),
              failure.text);
        CHECK(contains(failure.text, "threadblock 0 at step"), failure.text);
      }
    }
}

// The first worker has nothing to do: the other one's peer is missed all the same.
TEST(a_timeout_comes_whichever_worker_waits) {
  const Tables tables({{1, 1, 0}, {1, 1, 0}}, {{0, kNoPeer, kNoPeer, 0, {{Opcode::cpy, {kInput, 0}, {kOutput, 0}}}},
                                               {0, kNoPeer, 1, 0, {{Opcode::r, {}, {kOutput, 0}, 1, {{0, 0}}}}},
                                               {1, 0, kNoPeer, 0, {{Opcode::s, {kInput, 0}}}}});
  for (const auto& hosts : {std::vector<uint32_t>{}, {0, 1}}) {
    Group group(2, {.workers = 2, .timeout_seconds = 0.2, .hosts = hosts});
    Numbers input(10), output(10);
    const Part part = take_part(tables.view(), {0, 1, -1, 0});
    const Failure failure = group.executor(0).run(part, call_of(10), bytes(input), bytes(output), nullptr);
    CHECK(failure.kind == FailureKind::peer_lost && failure.rank == 1, failure.text);
  }
}

// The first worker has ended when the message comes: it is taken from the socket all the same.
TEST(links_are_pumped_as_long_as_any_worker_waits) {
  const Tables tables({{1, 2, 0}, {1, 2, 0}},
                      {{0, kNoPeer, kNoPeer, 0, {{Opcode::cpy, {kInput, 0}, {kOutput, 0}}}},
                       {0, 1, 1, 0, {{Opcode::s, {kInput, 0}}, {Opcode::r, {}, {kOutput, 1}}}},
                       {1, kNoPeer, kNoPeer, 0, {{Opcode::cpy, {kInput, 0}, {kOutput, 0}}}},
                       {1, 0, 0, 0, {{Opcode::s, {kInput, 0}}, {Opcode::r, {}, {kOutput, 1}}}}});
  Group group(2, {.shape = {2, 1024}, .workers = 2, .timeout_seconds = 20, .hosts = {0, 1}});
  const auto parts = parts_of(tables, 1);
  for (int round = 0; round < 20; ++round)
    on_all(2, [&](uint32_t rank) {
      Numbers input = input_of(rank, 2000), output(4000);
      CHECK(!group.executor(rank).run(parts[rank], call_of(2000), bytes(input), bytes(output), nullptr));
      CHECK(std::equal(output.begin() + 2000, output.end(), input_of(1 - rank, 2000).begin()));
    });
}

TEST(a_rank_that_calls_something_else_is_a_mismatch_for_all) {
  for (const auto& hosts : kLayouts)
    for (const uint32_t workers : {1u, 2u}) {
      Group group(3, {.workers = workers, .timeout_seconds = 20, .hosts = hosts});
      const auto parts = ring_parts(3);
      const auto outcomes = run_with_failure(group, parts, 1, [&](Failure& failure) {
        Numbers data = input_of(1, 10'000);
        failure = run_ring(group, 1, parts[1], call_of(10'000, 77, "the wrong call"), data);
      });
      for (uint32_t rank = 0; rank < 3; ++rank)
        CHECK(outcomes.failures[rank].kind == FailureKind::mismatch, "rank ", rank, ": ", outcomes.failures[rank].text);
      CHECK(contains(outcomes.failures[0].text, "call"), outcomes.failures[0].text);
    }
}

TEST(a_rank_that_left_is_lost_to_those_who_need_it) {
  for (const auto& hosts : kLayouts) {
    Group group(3, {.timeout_seconds = 20, .hosts = hosts});
    const auto outcomes = run_with_failure(group, ring_parts(3), 0, [&](Failure&) { group.endpoint(0).leave(); });
    for (const uint32_t rank : {1u, 2u}) {
      const Failure& failure = outcomes.failures[rank];
      CHECK(failure.kind == FailureKind::peer_lost && failure.rank == 0, "rank ", rank, ": ", failure.text);
      CHECK(contains(failure.text, "rank 0 has closed its communicator"), failure.text);
    }
  }
}

TEST(ranks_that_have_finished_may_leave_while_others_still_work) {
  for (const auto& hosts : kLayouts)
    for (int round = 0; round < 5; ++round) {
      Group group(3, {.shape = {2, 128}, .hosts = hosts});
      const auto parts = ring_parts(3);
      on_all(3, [&](uint32_t rank) {
        Numbers data = input_of(rank, 1000);
        const Failure failure = run_ring(group, rank, parts[rank], call_of(1000), data);
        CHECK(!failure, failure.text);
        CHECK(data == sum_of(3, 1000));
        group.endpoint(rank).leave();
      });
    }
}

// The peer has sent everything and is gone before the second worker has taken it; the first, which has nothing to do,
// looks around meanwhile.
TEST(a_peer_that_left_when_its_part_was_done_is_not_missed) {
  constexpr uint32_t kMessages = 64, kMessageBytes = 1 << 20;
  const Tables tables({{0, 1, 0}, {1, 0, 0}}, {{0, kNoPeer, kNoPeer, 0, {{Opcode::nop}}},
                                               {0, kNoPeer, 1, 0, {{Opcode::r, {}, {kOutput, 0}}}},
                                               {1, 0, kNoPeer, 0, {{Opcode::s, {kInput, 0}}}}});
  const auto parts = parts_of(tables, 1);
  Group group(2, {.shape = {kMessages, kMessageBytes}, .workers = 2});
  const uint64_t elements = uint64_t{kMessages} * kMessageBytes / sizeof(int64_t);
  CallShape call = call_of(elements);
  call.message_bytes = kMessageBytes;
  Numbers input(elements, 5), output(elements, -1);
  CHECK(!group.executor(1).run(parts[1], call, bytes(input), nullptr, nullptr));
  group.endpoint(1).leave();
  const Failure failure = group.executor(0).run(parts[0], call, nullptr, bytes(output), nullptr);
  CHECK(!failure, failure.text);
  CHECK(output == input);
}

TEST(an_interrupt_ends_the_call_here_and_the_rank_for_others) {
  Group group(3, {.timeout_seconds = 20});
  const auto parts = ring_parts(3);
  std::atomic<bool> stop{false};
  group.executor(1).interrupted = [&] { return stop.load(); };
  on_all(3, [&](uint32_t rank) {
    if (rank == 2) {  // it comes late, when rank 1 does not want any more
      while (group.endpoint(1).own_board().call.load() == 0) sched_yield();
      stop.store(true);
      while (!group.endpoint(2).has_failed()) sched_yield();
    }
    Numbers data = input_of(rank, 100);
    const Failure failure = run_ring(group, rank, parts[rank], call_of(100), data);
    CHECK(failure.rank == 1);
    CHECK(failure.kind == (rank == 1 ? FailureKind::interrupted : FailureKind::peer_lost), failure.text);
  });
}

// A peer that goes on to its next call while this one still waits in the last is no mismatch, at no moment.
TEST(a_peer_that_moves_on_is_no_mismatch) {
  Group group(2);
  Endpoint& mine = group.endpoint(0);
  Endpoint& peers = group.endpoint(1);
  constexpr uint64_t kCalls = 5'000;
  std::atomic<uint64_t> reached{0};
  on_all(2, [&](uint32_t rank) {
    for (uint64_t call = 1; call <= kCalls; ++call) {
      if (rank == 0) {
        mine.begin_call(call * 17, "a call");
        reached.store(call);
        while (peers.own_board().call.load() <= call && call < kCalls) {
          const Failure failure = mine.check_peers({}).certain;
          CHECK(!failure, failure.text);
          sched_yield();
        }
      } else {
        while (reached.load() + 1 < call) sched_yield();
        peers.begin_call(call * 17, "a call");
      }
    }
  });
}

// A worker that has nothing left to do does not take the time of one that still works for time without progress.
// The peer is driven by hand, a message now and then, for much longer than the timeout.
TEST(progress_of_any_worker_is_progress) {
  constexpr uint32_t kTiles = 20;
  const Tables tables({{1, 2, 0}, {1, 0, 0}}, {{0, kNoPeer, kNoPeer, 0, {{Opcode::cpy, {kInput, 0}, {kOutput, 0}}}},
                                               {0, kNoPeer, 1, 0, {{Opcode::r, {}, {kOutput, 1}}}},
                                               {1, 0, kNoPeer, 0, {{Opcode::s, {kInput, 0}}}}});
  Group group(2, {.shape = {2, 64}, .workers = 2, .timeout_seconds = 0.5});
  const uint64_t elements = kTiles * 64 / sizeof(int64_t);
  on_all(2, [&](uint32_t rank) {
    if (rank == 0) {
      Numbers input = input_of(0, elements), output(2 * elements, -1);
      const Part part = take_part(tables.view(), {0, 1, -1, 0});
      const Failure failure = group.executor(0).run(part, call_of(elements), bytes(input), bytes(output), nullptr);
      CHECK(!failure, failure.text);
      CHECK(std::equal(output.begin() + static_cast<std::ptrdiff_t>(elements), output.end(),
                       Numbers(elements, 7).begin()));
      return;
    }
    runtime::SendEnd& end = group.endpoint(1).send_end({0, 0});
    const uint64_t signature = group.endpoint(1).begin_call(1, "a call");
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      std::this_thread::sleep_for(std::chrono::milliseconds(60));
      std::byte* place;
      while ((place = end.acquire()) == nullptr) sched_yield();
      std::fill_n(reinterpret_cast<int64_t*>(place), 8, 7);
      end.publish(signature, 64);
      group.endpoint(1).bell(0).ring();
    }
  });
}

}  // namespace
}  // namespace hemiola::test
