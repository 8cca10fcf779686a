// Plans on real data: ranks are threads of this process, on one host or on several, with one worker or more.
#include "runtime/executor.h"

#include <algorithm>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "runtime/clock.h"
#include "test/calls.h"

namespace hemiola::test {
namespace {

using runtime::Operator, runtime::TraceEvent;

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
        const Failure failure =
            group.executor(rank).run(part, call_of(elements), bytes(data) + own * 8, bytes(data), nullptr);
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
      const Failure failure = in_ring ? run_ring(group, rank, ring[rank], call_of(elements, elements), data)
                                      : group.executor(rank).run(pairs[rank], call_of(elements, elements), bytes(data),
                                                                 bytes(output), nullptr);
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
    const Failure failure =
        group.executor(rank).run(parts[rank], call_of(data.size()), bytes(data), bytes(data), nullptr);
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
  const Tables tables({{4, 0, 0}, {0, 0, 0}, {0, 4, 0}}, {{0, 2, kNoPeer, 0, {{Opcode::s, {kInput, 0}, {}, 4}}},
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

// Some are forwarded in their buffers, others go past the caches into new ones, and in the next call it is the other
// way.
TEST(messages_arrive_where_only_some_are_forwarded) {
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

TEST(groups_in_flight_together_do_not_disturb_each_other) {
  constexpr uint32_t kGroups = 3;
  std::vector<std::unique_ptr<Group>> groups;
  for (uint32_t k = 0; k < kGroups; ++k)
    groups.push_back(std::make_unique<Group>(2, GroupOptions{.workers = 1 + k % 2}));
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
