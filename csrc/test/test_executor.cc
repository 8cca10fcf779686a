// Plans on real data: ranks are threads of this process, on one host or on several, with one worker or more; and
// what happens to all of them when one fails.
#include "runtime/executor.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/clock.h"
#include "test/check.h"
#include "test/group.h"
#include "test/plan_tables.h"

namespace hemiola::test {
namespace {

using runtime::CallShape, runtime::Endpoint, runtime::Failure, runtime::FailureKind, runtime::Operator,
    runtime::Part, runtime::take_part, runtime::TraceEvent;
using Numbers = std::vector<int64_t>;

std::byte* bytes(Numbers& numbers) { return reinterpret_cast<std::byte*>(numbers.data()); }

// Element k of a rank's input; sums over ranks are exact.
int64_t number_of(uint32_t rank, uint64_t k) { return static_cast<int64_t>((rank + 1) * 1'000'003 + k * (rank + 2)); }

Numbers input_of(uint32_t rank, uint64_t elements) {
  Numbers numbers(elements);
  for (uint64_t k = 0; k < elements; ++k) numbers[k] = number_of(rank, k);
  return numbers;
}

Numbers sum_of(uint32_t num_ranks, uint64_t elements) {
  Numbers numbers(elements, 0);
  for (uint32_t rank = 0; rank < num_ranks; ++rank)
    for (uint64_t k = 0; k < elements; ++k) numbers[k] += number_of(rank, k);
  return numbers;
}

Failure run_ring(Group& group, uint32_t rank, const Part& part, const CallShape& call, Numbers& data) {
  return group.executor(rank).run(part, call, bytes(data), bytes(data), nullptr);
}

std::vector<Part> parts_of(const Tables& tables, uint32_t block_chunks, int32_t alias = -1) {
  std::vector<Part> parts;
  for (uint32_t rank = 0; rank < tables.num_ranks(); ++rank)
    parts.push_back(take_part(tables.view(), {rank, block_chunks, alias, 0}));
  return parts;
}

std::vector<Part> ring_parts(uint32_t num_ranks, uint32_t count = 1, uint32_t instances = 1) {
  return parts_of(ring_all_reduce(num_ranks, count, instances), num_ranks * instances * count, kOutput);
}

// An all-reduce in place on every rank, checked.
void check_ring(Group& group, const std::vector<Part>& parts, uint64_t elements, uint64_t content = 1) {
  const Numbers expected = sum_of(group.num_ranks(), elements);
  on_all(group.num_ranks(), [&](uint32_t rank) {
    Numbers data = input_of(rank, elements);
    const Failure failure = run_ring(group, rank, parts[rank], call_of(elements, content), data);
    CHECK(!failure, failure.text);
    CHECK(data == expected, "rank ", rank, " of ", group.num_ranks(), ", ", elements, " elements");
  });
}

void check_all_pairs(Group& group, const std::vector<Part>& parts, uint64_t elements, uint64_t content = 2) {
  const Numbers expected = sum_of(group.num_ranks(), elements);
  on_all(group.num_ranks(), [&](uint32_t rank) {
    Numbers input = input_of(rank, elements), output(elements, -1);
    const Failure failure =
        group.executor(rank).run(parts[rank], call_of(elements, content), bytes(input), bytes(output), nullptr);
    CHECK(!failure, failure.text);
    CHECK(output == expected && input == input_of(rank, elements), "rank ", rank, ", ", elements, " elements");
  });
}

const std::vector<uint64_t> kSizes = {0, 1, 7, 60, 1000, 20'011};

TEST(rings_sum_on_any_number_of_ranks_and_workers) {
  for (const uint32_t num_ranks : {2u, 3u, 5u})
    for (const uint32_t workers : {1u, 2u, 3u})
      for (const uint32_t count : {1u, 2u}) {
        Group group(num_ranks, {.shape = {3, 512}, .workers = workers});
        const auto parts = ring_parts(num_ranks, count, workers);
        for (const uint64_t elements : kSizes) check_ring(group, parts, elements);
      }
}

TEST(threadblocks_that_wait_for_each_other_sum_through_scratch) {
  for (const uint32_t num_ranks : {2u, 4u})
    for (const uint32_t workers : {1u, 2u, 3u}) {
      Group group(num_ranks, {.shape = {2, 64}, .workers = workers});
      const auto parts = parts_of(all_pairs_all_reduce(num_ranks), 1);
      for (const uint64_t elements : {0u, 1u, 7u, 500u}) check_all_pairs(group, parts, elements);
    }
}

TEST(in_place_all_gathers_read_their_window_of_the_output) {
  for (const uint32_t chunks : {1u, 3u}) {
    constexpr uint32_t kRanks = 3;
    Group group(kRanks, {.shape = {2, 256}});
    const Tables tables = ring_all_gather(kRanks, chunks);
    for (const uint64_t elements : {0u, 1u, 7u, 3000u, 9001u})
      on_all(kRanks, [&](uint32_t rank) {
        const Part part = take_part(tables.view(), {rank, chunks, kInput, rank * chunks});
        Numbers data(kRanks * elements, -1), expected;
        for (uint32_t from = 0; from < kRanks; ++from) {
          const Numbers share = input_of(from, elements);
          expected.insert(expected.end(), share.begin(), share.end());
        }
        const auto own = static_cast<std::ptrdiff_t>(rank * elements);
        const Numbers share = input_of(rank, elements);
        std::copy(share.begin(), share.end(), data.begin() + own);
        const Failure failure = group.executor(rank).run(part, call_of(elements), bytes(data) + own * 8, bytes(data), nullptr);
        CHECK(!failure, failure.text);
        CHECK(data == expected, "rank ", rank, ", ", chunks, " chunks of ", elements);
      });
  }
}

TEST(shares_of_their_own_lengths_arrive) {
  constexpr uint32_t kRanks = 3;
  const auto parts = parts_of(direct_all_to_all(kRanks), 1);
  for (const uint32_t workers : {1u, 2u}) {
    Group group(kRanks, {.shape = {2, 128}, .workers = workers});
    std::mt19937_64 random(workers);
    for (int round = 0; round < 30; ++round) {
      uint64_t lengths[kRanks][kRanks];  // from, to
      for (auto& row : lengths)
        for (uint64_t& length : row) length = random() % 3 == 0 ? 0 : random() % 200;
      on_all(kRanks, [&](uint32_t rank) {
        CallShape call = call_of(0);
        Numbers input, expected;
        for (uint32_t peer = 0; peer < kRanks; ++peer) {
          call.input_lengths.push_back(lengths[rank][peer]);
          call.output_lengths.push_back(lengths[peer][rank]);
          for (uint64_t k = 0; k < lengths[rank][peer]; ++k) input.push_back(number_of(rank, 1000 * peer + k));
          for (uint64_t k = 0; k < lengths[peer][rank]; ++k) expected.push_back(number_of(peer, 1000 * rank + k));
        }
        Numbers output(expected.size(), -1);
        const Failure failure = group.executor(rank).run(parts[rank], call, bytes(input), bytes(output), nullptr);
        CHECK(!failure, failure.text);
        CHECK(output == expected, "rank ", rank, ", round ", round);
      });
    }
  }
}

TEST(calls_of_different_plans_and_sizes_follow_each_other) {
  constexpr uint32_t kRanks = 3;
  Group group(kRanks, {.shape = {4, 256}, .workers = 2});
  const auto ring = ring_parts(kRanks, 1, 2), pairs = parts_of(all_pairs_all_reduce(kRanks), 1);
  on_all(kRanks, [&](uint32_t rank) {
    std::mt19937_64 random(9);  // the same on every rank
    for (uint64_t call = 0; call < 300; ++call) {
      const uint64_t elements = random() % 400;
      Numbers data = input_of(rank, elements), output(elements);
      const bool in_ring = random() % 2 == 0;
      const Failure failure =
          in_ring ? run_ring(group, rank, ring[rank], call_of(elements, elements), data)
                  : group.executor(rank).run(pairs[rank], call_of(elements, elements), bytes(data), bytes(output), nullptr);
      CHECK(!failure, failure.text);
      CHECK((in_ring ? data : output) == sum_of(kRanks, elements), "call ", call, " of rank ", rank);
    }
  });
  CHECK(group.endpoint(0).call() == 300);
}

TEST(plans_run_across_hosts_and_within_them_at_once) {
  for (const uint32_t workers : {1u, 2u, 3u}) {
    const std::vector<uint32_t> hosts{0, 0, 1, 1};
    Group group(4, {.shape = {3, 1024}, .workers = workers, .hosts = hosts, .links = workers});
    CHECK(group.endpoint(0).is_local(1) && !group.endpoint(0).is_local(2));
    const auto ring = ring_parts(4, 1, workers), pairs = parts_of(all_pairs_all_reduce(4), 1);
    for (const uint64_t elements : {1u, 7u, 5000u}) {
      check_ring(group, ring, elements);
      check_all_pairs(group, pairs, elements);
    }
  }
}

TEST(a_run_ends_only_when_its_links_are_drained) {
  Group group(2, {.shape = {8, 65536}, .hosts = {0, 1}});
  const Tables tables({{1, 0, 0}, {0, 1, 0}}, {{0, 1, kNoPeer, 0, {{Opcode::s, {kInput, 0}}}},
                                               {1, kNoPeer, 0, 0, {{Opcode::r, {}, {kOutput, 0}}}}});
  const auto parts = parts_of(tables, 1);
  on_all(2, [&](uint32_t rank) {
    Numbers data = input_of(0, 40'000);
    if (rank == 1) std::ranges::fill(data, 0);
    const Failure failure = group.executor(rank).run(parts[rank], call_of(data.size()), bytes(data), bytes(data), nullptr);
    CHECK(!failure, failure.text);
    CHECK(data == input_of(0, data.size()));
    if (rank == 0) group.endpoint(0).leave();
  });
}

TEST(averages_are_divided_and_operators_obeyed) {
  Group group(3);
  const auto parts = ring_parts(3);
  for (const Operator op : {Operator::sum, Operator::prod, Operator::min, Operator::max})
    on_all(3, [&](uint32_t rank) {
      CallShape call = call_of(100, static_cast<uint64_t>(op));
      call.op = op;
      call.divide_elements = op == Operator::sum ? 100 : 0;
      Numbers data(100, static_cast<int64_t>(rank) + 2);
      CHECK(!run_ring(group, rank, parts[rank], call, data));
      const int64_t expected[] = {3, 24, 2, 4};
      CHECK(data == Numbers(100, expected[static_cast<size_t>(op)]));
    });
}

TEST(a_rank_with_no_data_takes_part_when_shares_do_not_divide) {
  const Tables tables({{4, 0, 0}, {0, 0, 0}, {0, 4, 0}},
                      {{0, 2, kNoPeer, 0, {{Opcode::s, {kInput, 0}, {}, 4}}},
                       {2, kNoPeer, 0, 0, {{Opcode::r, {}, {kOutput, 0}, 4}}}});
  Group group(3);
  const auto parts = parts_of(tables, 4);
  on_all(3, [&](uint32_t rank) {
    Numbers data = input_of(0, rank == 1 ? 0 : 7);
    const Numbers before = data;
    if (rank == 2) std::ranges::fill(data, 0);
    CHECK(!group.executor(rank).run(parts[rank], call_of(7), bytes(data), bytes(data), nullptr));
    CHECK(data == before);
  });
}

TEST(a_trace_has_every_step_of_every_tile_once) {
  for (const uint32_t workers : {1u, 2u}) {
    Group group(2, {.shape = {2, 128}, .workers = workers});
    const auto parts = ring_parts(2, 1, 2);
    on_all(2, [&](uint32_t rank) {
      Numbers data = input_of(rank, 640);
      std::vector<TraceEvent> events;
      const int64_t before = runtime::now();
      CHECK(!group.executor(rank).run(parts[rank], call_of(640), bytes(data), bytes(data), &events));
      const int64_t after = runtime::now();
      // 160 elements a chunk, 16 in a slot; two threadblocks of three steps.
      CHECK(events.size() == 10 * 2 * 3);
      std::vector<int> seen(events.size(), 0);
      for (const TraceEvent& event : events) {
        CHECK(event.threadblock < 2 && event.step < 3 && event.tile < 10 && event.num_bytes == 128);
        CHECK(before <= event.begin && event.begin <= event.end && event.end <= after);
        ++seen[(event.tile * 2 + event.threadblock) * 3 + event.step];
      }
      CHECK(std::ranges::all_of(seen, [](int times) { return times == 1; }));
    });
  }
}

TEST(smaller_messages_make_more_tiles_and_the_same_result) {
  Group group(3, {.shape = {2, 4096}});
  const auto parts = ring_parts(3);
  for (const uint32_t message_bytes : {8u, 100u, 1024u, 1u << 20})
    on_all(3, [&](uint32_t rank) {
      CallShape call = call_of(3001, message_bytes);
      call.message_bytes = message_bytes;
      Numbers data = input_of(rank, 3001);
      CHECK(!run_ring(group, rank, parts[rank], call, data));
      CHECK(data == sum_of(3, 3001), "messages of ", message_bytes);
    });
}

// To readers that seem to be on the same core, on a near one, or on a far one.
TEST(large_messages_arrive_whichever_way_they_are_written) {
  for (const uint32_t workers : {1u, 2u})
    for (const int64_t nanoseconds : {5, 30, 110}) {
      Group group(2, {.shape = {2, 128 << 10}, .workers = workers});
      const auto parts = ring_parts(2, 1, 2);
      for (int round = 0; round < 3; ++round) {
        for (const uint32_t rank : {0u, 1u})
          for (const runtime::Connection connection : parts[rank].sends) {
            runtime::SendEnd& end = group.endpoint(rank).send_end(connection);
            for (int k = 0; k < 100; ++k) end.note_distance(nanoseconds);
            CHECK(end.streams(128 << 10) == (nanoseconds == 110));
          }
        check_ring(group, parts, 200'003);
      }
    }
}

// Some are passed on in their rooms, others go past the caches into new ones, and in the next call it is the other way.
TEST(messages_arrive_where_only_some_are_passed_on) {
  std::mt19937_64 random(11);
  for (const uint32_t num_ranks : {2u, 3u, 5u})
    for (const uint32_t workers : {1u, 2u})
      for (const uint32_t slots : {2u, 3u}) {
        Group group(num_ranks, {.shape = {slots, 32 << 10}, .workers = workers});
        const auto parts = ring_parts(num_ranks, 1, 2);
        for (int round = 0; round < 12; ++round) {
          for (uint32_t rank = 0; rank < num_ranks; ++rank)
            for (const runtime::Connection connection : parts[rank].sends) {
              const int64_t nanoseconds = random() % 2 == 0 ? 30 : 110;
              for (int k = 0; k < 100; ++k) group.endpoint(rank).send_end(connection).note_distance(nanoseconds);
            }
          check_ring(group, parts, random() % 3 == 0 ? random() % 2000 : 40'000 + random() % 20'000);
        }
      }
}

void note_near(Group& group, const std::vector<Part>& parts) {
  for (uint32_t rank = 0; rank < group.num_ranks(); ++rank)
    for (const runtime::Connection connection : parts[rank].sends)
      for (int k = 0; k < 100; ++k) group.endpoint(rank).send_end(connection).note_distance(30);
}

TEST(what_comes_in_and_what_goes_out_next_change_places_in_one_sweep) {
  Group group(2, {.shape = {4, 32 << 10}});
  const auto parts = ring_parts(2);
  constexpr uint64_t kElements = 2 * 3 * 4096;  // three tiles
  note_near(group, parts);
  on_all(2, [&](uint32_t rank) {
    Numbers data = input_of(rank, kElements);
    std::vector<TraceEvent> events;
    CHECK(!group.executor(rank).run(parts[rank], call_of(kElements), bytes(data), bytes(data), &events));
    CHECK(data == sum_of(2, kElements));
    CHECK(events.size() == 3 * 3);
    for (uint32_t k = 0; k < events.size(); ++k) CHECK(events[k].tile == k / 3 && events[k].step == k % 3);
    for (const uint32_t k : {2u, 5u})
      CHECK(events[k].begin == events[k + 1].begin && events[k].end == events[k + 1].end, "the last step of a tile");
  });
}

TEST(chunks_with_gaps_between_their_tiles_do_not_change_places) {
  std::vector<HandBlock> blocks;
  for (const int32_t rank : {0, 1})
    blocks.push_back({static_cast<uint32_t>(rank), 1 - rank, 1 - rank, 0,
                      {{Opcode::s, {kInput, 0}, {}, 2}, {Opcode::r, {}, {kOutput, 0}, 2}}});
  const auto parts = parts_of(Tables({{2, 2, 0}, {2, 2, 0}}, blocks), 2);
  for (const uint64_t elements : {2 * 2048u, 2 * 3 * 2048u, 100'003u}) {
    Group group(2, {.shape = {4, 32 << 10}});
    note_near(group, parts);
    on_all(2, [&](uint32_t rank) {
      Numbers input = input_of(rank, elements), output(elements, -1);
      CHECK(!group.executor(rank).run(parts[rank], call_of(elements), bytes(input), bytes(output), nullptr));
      CHECK(output == input_of(1 - rank, elements), "rank ", rank, ", ", elements, " elements");
    });
  }
}

TEST(what_goes_out_next_is_waited_for) {
  constexpr uint64_t kChunk = 4000;
  const Tables tables({{2, 2, 0}, {2, 2, 0}},
                      {{0, 1, 1, 0, {{Opcode::s, {kInput, 0}}, {Opcode::r, {}, {kOutput, 0}}}},
                       {0, 1, kNoPeer, 1, {{Opcode::s, {kInput, 1}, {}, 1, {{0, 0}}}}},
                       {1, 0, 0, 0, {{Opcode::r, {}, {kOutput, 0}}, {Opcode::s, {kOutput, 1}, {}, 1, {{1, 0}}}}},
                       {1, kNoPeer, 0, 1, {{Opcode::r, {}, {kOutput, 1}}}}});
  const auto parts = parts_of(tables, 2);
  for (const uint32_t workers : {1u, 2u}) {
    Group group(2, {.shape = {4, 32 << 10}, .workers = workers});
    note_near(group, parts);
    on_all(2, [&](uint32_t rank) {
      Numbers input = input_of(rank, 2 * kChunk), output(2 * kChunk, -1);
      CHECK(!group.executor(rank).run(parts[rank], call_of(2 * kChunk), bytes(input), bytes(output), nullptr));
      for (uint64_t k = 0; rank == 0 && k < kChunk; ++k) CHECK(output[k] == input[kChunk + k], "element ", k);
      CHECK(rank == 0 || output == input_of(0, 2 * kChunk));
    });
  }
}

// Rank 1 receives two chunks, to `first` of its output, and then sends two; rank 0 ends with what these are then.
void check_echo(uint32_t first, Place sent, const std::vector<int64_t>& expected) {
  constexpr uint64_t kChunk = 1500;
  const Tables tables({{4, 4, 0}, {4, 4, 0}},
                      {{0, 1, 1, 0, {{Opcode::s, {kInput, 0}, {}, 2}, {Opcode::r, {}, {kOutput, 0}, 2}}},
                       {1, 0, 0, 0, {{Opcode::r, {}, {kOutput, first}, 2}, {Opcode::s, sent, {}, 2}}}});
  const auto parts = parts_of(tables, 4);
  Group group(2, {.shape = {4, 32 << 10}});
  note_near(group, parts);
  on_all(2, [&](uint32_t rank) {
    Numbers input(4 * kChunk), output(4 * kChunk);  // chunk k: 10 + k and 30 + k on rank 0, 20 + k and 40 + k on rank 1
    for (uint64_t k = 0; k < input.size(); ++k) {
      input[k] = static_cast<int64_t>(10 + 10 * rank + k / kChunk);
      output[k] = static_cast<int64_t>(30 + 10 * rank + k / kChunk);
    }
    CHECK(!group.executor(rank).run(parts[rank], call_of(4 * kChunk), bytes(input), bytes(output), nullptr));
    for (uint64_t k = 0; rank == 0 && k < 2 * kChunk; ++k)
      CHECK(output[k] == expected[k / kChunk], "element ", k, " is ", output[k]);
    for (uint64_t k = 0; rank == 1 && k < 2 * kChunk; ++k)
      CHECK(output[first * kChunk + k] == static_cast<int64_t>(10 + k / kChunk));
  });
}

TEST(what_is_sent_right_after_it_came_is_what_came) {
  check_echo(0, {kOutput, 0}, {10, 11});
  check_echo(0, {kOutput, 1}, {11, 42});
  check_echo(1, {kOutput, 0}, {40, 10});
  check_echo(0, {kOutput, 2}, {42, 43});
  check_echo(0, {kInput, 1}, {21, 22});
}

TEST(a_rank_that_finds_an_invariant_broken_ends_the_run_of_all) {
  for (const uint32_t workers : {1u, 2u}) {
    Group group(3, {.workers = workers});
    const auto parts = ring_parts(3);
    std::vector<std::byte> elsewhere(2048);
    group.endpoint(0).send_end({1, 0}).exchange_room(~uint64_t{0}, elsewhere.data(), 0);  // a room that no other rank has
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
        CHECK(contains(failure.text, "rank 2 did not answer") && contains(failure.text, "the right call"), failure.text);
        CHECK(contains(failure.text, "threadblock 0 at step"), failure.text);
      }
    }
}

// The first worker has nothing to do: the other one's peer is missed all the same.
TEST(a_timeout_comes_whichever_worker_waits) {
  const Tables tables({{1, 1, 0}, {1, 1, 0}},
                      {{0, kNoPeer, kNoPeer, 0, {{Opcode::cpy, {kInput, 0}, {kOutput, 0}}}},
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
  const Tables tables({{0, 1, 0}, {1, 0, 0}},
                      {{0, kNoPeer, kNoPeer, 0, {{Opcode::nop}}},
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
          const Failure failure = mine.look_around({}).certain;
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
  const Tables tables({{1, 2, 0}, {1, 0, 0}},
                      {{0, kNoPeer, kNoPeer, 0, {{Opcode::cpy, {kInput, 0}, {kOutput, 0}}}},
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
      CHECK(std::equal(output.begin() + static_cast<std::ptrdiff_t>(elements), output.end(), Numbers(elements, 7).begin()));
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

TEST(groups_in_flight_together_do_not_disturb_each_other) {
  constexpr uint32_t kGroups = 3;
  std::vector<std::unique_ptr<Group>> groups;
  for (uint32_t k = 0; k < kGroups; ++k) groups.push_back(std::make_unique<Group>(2, GroupOptions{.workers = 1 + k % 2}));
  const auto parts = ring_parts(2);
  on_all(kGroups, [&](uint32_t k) {
    for (int round = 0; round < 20; ++round) check_ring(*groups[k], parts, 1000 + k, k);
  });
}

TEST(connections_beyond_the_limit_and_unknown_peers_are_refused) {
  Group group(2);
  const runtime::Connection wrong[] = {{0, 0}, {2, 0}, {1, runtime::kMaxConnections}};
  for (const auto& connection : wrong) {
    int refused = 0;
    try {
      group.endpoint(0).send_end(connection);
    } catch (const std::runtime_error&) {
      ++refused;
    }
    try {
      group.endpoint(0).receive_end(connection);
    } catch (const std::runtime_error&) {
      ++refused;
    }
    CHECK(refused == 2, "peer ", connection.peer, ", index ", connection.index);
  }
}

}  // namespace
}  // namespace hemiola::test
