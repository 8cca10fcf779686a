// The progress thread runs calls in order while others go on, and its calls fail as those of the caller's thread do.
#include "runtime/progress_thread.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/member.h"
#include "runtime/short_slice.h"
#include "runtime/waiting.h"
#include "test/calls.h"

namespace hemiola::test {
namespace {

using runtime::Attention, runtime::FailureKind, runtime::Member, runtime::PreparedCall, runtime::ProgressThread,
    runtime::QueuedCall, runtime::Waiting, runtime::WaitPolicy, runtime::WaitStep;

constexpr int64_t kLong = 60'000'000'000;

// Ranks of one process, each with a progress thread.
class Members {
 public:
  Members(uint32_t num_ranks, double timeout_seconds) {
    for (uint32_t rank = 0; rank < num_ranks; ++rank) {
      members_.push_back(std::make_unique<Member>(rank, num_ranks, runtime::QueueShape{4, 4096}));
      WaitPolicy& policy = members_.back()->executor.policy;
      policy.spins = 20;
      policy.yield_nanoseconds = 100'000;
      policy.timeout_nanoseconds = static_cast<int64_t>(timeout_seconds * 1e9);
    }
    for (uint32_t one = 0; one < num_ranks; ++one)
      for (uint32_t other = 0; other < num_ranks; ++other)
        if (one != other) members_[one]->endpoint.join_local(other, dup(members_[other]->endpoint.segment()), 0);
  }

  Member& operator[](uint32_t rank) { return *members_[rank]; }

 private:
  std::vector<std::unique_ptr<Member>> members_;
};

TEST(jobs_run_in_order_and_close_waits_for_them) {
  ProgressThread thread;
  std::vector<int> order;
  std::vector<std::shared_ptr<QueuedCall>> calls;
  for (int k = 0; k < 200; ++k)
    calls.push_back(thread.put([&order, k](const Attention&) {
      order.push_back(k);
      return Failure{};
    }));
  thread.close();
  CHECK(order.size() == 200);
  for (int k = 0; k < 200; ++k) CHECK(order[static_cast<size_t>(k)] == k && calls[static_cast<size_t>(k)]->is_done());
  thread.close();
  bool refused = false;
  try {
    thread.put([](const Attention&) { return Failure{}; });
  } catch (const std::logic_error&) {
    refused = true;
  }
  CHECK(refused, "a closed thread took a call");
}

TEST(a_failure_and_an_exception_wait_in_their_calls) {
  ProgressThread thread;
  const auto failed = thread.put([](const Attention&) { return Failure{FailureKind::peer_lost, 3, "rank 3 died"}; });
  const auto threw = thread.put([](const Attention&) -> Failure { throw std::runtime_error("no memory"); });
  const auto good = thread.put([](const Attention&) { return Failure{}; });
  CHECK(good->wait(kLong) && failed->is_done() && threw->is_done());
  CHECK(failed->failure().rank == 3 && failed->failure().text == "rank 3 died");
  CHECK(threw->failure().kind == FailureKind::internal && threw->failure().text == "no memory");
  CHECK(!good->failure());
}

TEST(a_wait_ends_with_its_time) {
  ProgressThread thread;
  std::atomic<bool> go{false};
  const auto call = thread.put([&go](const Attention&) {
    while (!go.load()) std::this_thread::yield();
    return Failure{};
  });
  CHECK(!call->wait(1'000'000) && !call->is_done());
  go.store(true);
  CHECK(call->wait(kLong));
}

TEST(attention_is_paid_while_somebody_waits_for_the_result) {
  ProgressThread thread;
  std::atomic<int> seen{0};
  const auto call = thread.put([&seen](const Attention& attention) {
    while (!attention.is_paid()) std::this_thread::yield();
    seen.store(1);
    while (attention.is_paid()) std::this_thread::yield();
    return Failure{};
  });
  CHECK(!call->wait(20'000'000, false) && seen.load() == 0, "whoever only wants to know pays no attention");
  while (seen.load() == 0) call->wait(1'000'000);
  CHECK(call->wait(kLong, false));
}

// Whom nobody waits for sleeps at once; whom somebody waits for polls and yields first.
TEST(a_worker_sleeps_at_once_where_nobody_waits) {
  const WaitPolicy policy{3, 3'600'000'000'000, 0, 3'600'000'000'000};
  Attention attention;
  Waiting beside(policy, &attention);
  CHECK(beside.next() == WaitStep::announce);
  beside.announce(7);
  CHECK(beside.next() == WaitStep::sleep && beside.bell() == 7);
  attention.begin();
  Waiting attended(policy, &attention), blocking(policy, nullptr);
  for (Waiting* waiting : {&attended, &blocking}) {
    for (int k = 0; k < 3; ++k) CHECK(waiting->next() == WaitStep::pause);
    CHECK(waiting->next() == WaitStep::yield);
    waiting->restart();
    CHECK(waiting->next() == WaitStep::pause);
  }
  attention.end();
  CHECK(attended.next() == WaitStep::announce);
}

TEST(the_scheduler_may_be_asked_for_short_slices) {
  std::thread([] {
    runtime::ask_for_short_slices();  // an old kernel says no, and nothing else changes
    CHECK(sched_getscheduler(0) == SCHED_OTHER);
  }).join();
}

TEST(queued_all_reduces_give_the_sums_also_beside_calls_that_wait) {
  constexpr uint32_t kRanks = 3;
  constexpr uint64_t kElements = 5000;
  Members members(kRanks, 60);
  const auto parts = ring_parts(kRanks);
  const Numbers expected = sum_of(kRanks, kElements);
  on_all(kRanks, [&](uint32_t rank) {
    const PreparedCall call{&members[rank], &parts[rank], call_of(kElements), {}};
    std::vector<Numbers> data(20, input_of(rank, kElements));
    std::vector<std::shared_ptr<QueuedCall>> queued;
    for (Numbers& numbers : data) queued.push_back(call.start(bytes(numbers), bytes(numbers)));
    for (const auto& one : queued) CHECK(one->wait(kLong) && !one->failure(), one->failure().text);
    for (const Numbers& numbers : data) CHECK(numbers == expected, "rank ", rank);
    Numbers last = input_of(rank, kElements);
    CHECK(!call.run(bytes(last), bytes(last), nullptr));
    CHECK(last == expected);
  });
}

TEST(a_rank_that_does_not_come_is_named_by_every_queued_call) {
  Members members(2, 0.3);
  const auto parts = ring_parts(2);
  const PreparedCall call{&members[0], &parts[0], call_of(1000), {}};
  std::vector<Numbers> data(3, input_of(0, 1000));
  std::vector<std::shared_ptr<QueuedCall>> queued;
  for (Numbers& numbers : data) queued.push_back(call.start(bytes(numbers), bytes(numbers)));
  for (const auto& one : queued) {
    CHECK(one->wait(kLong));
    CHECK(one->failure().kind == FailureKind::peer_lost && one->failure().rank == 1, one->failure().text);
  }
}

TEST(a_forked_child_leaves_the_thread_alone) {
  auto thread = std::make_unique<ProgressThread>();
  std::atomic<bool> go{false};
  const auto call = thread->put([&go](const Attention&) {
    while (!go.load()) std::this_thread::yield();
    return Failure{};
  });
  const pid_t child = fork();
  if (child == 0) {
    bool refused = false;
    try {
      thread->put([](const Attention&) { return Failure{}; });
    } catch (const std::logic_error&) {
      refused = true;
    }
    thread->close();
    thread.reset();
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  go.store(true);
  CHECK(call->wait(kLong));
}

TEST(the_thread_takes_no_signals) {
  ProgressThread thread;
  std::atomic<bool> blocked{false};
  thread.put([&blocked](const Attention&) {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    blocked.store(sigismember(&mask, SIGINT) == 1 && sigismember(&mask, SIGTERM) == 1);
    return Failure{};
  });
  thread.close();
  sigset_t here;
  pthread_sigmask(SIG_SETMASK, nullptr, &here);
  CHECK(blocked.load() && sigismember(&here, SIGINT) == 0);
}

}  // namespace
}  // namespace hemiola::test
