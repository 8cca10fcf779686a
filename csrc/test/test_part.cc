// One rank's part of a plan: connections numbered alike at both ends, the largest message, what may bypass caches.
#include "runtime/part.h"

#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "test/check.h"
#include "test/plan_tables.h"

namespace hemiola::test {
namespace {

using runtime::Connection, runtime::Part, runtime::PartStep, runtime::take_part;

Part part_of(const Tables& tables, uint32_t rank, uint32_t block_chunks = 1, int32_t alias = -1, uint32_t offset = 0) {
  return take_part(tables.view(), {rank, block_chunks, alias, offset});
}

const PartStep& step_of(const Part& part, size_t block, size_t step) {
  return part.steps[part.blocks[block].first_step + step];
}

TEST(a_part_has_its_ranks_rows_alone) {
  const Tables tables = all_pairs_all_reduce(3);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const Part part = part_of(tables, rank);
    CHECK(part.num_chunks[0] == 1 && part.num_chunks[1] == 1 && part.num_chunks[2] == 3);
    CHECK(part.blocks.size() == 5 && part.steps.size() == 7 && part.dependencies.size() == 2);
    CHECK(step_of(part, 4, 0).opcode == Opcode::cpy && step_of(part, 4, 0).num_dependencies == 0);
    for (uint32_t k = 0; k < 2; ++k) {
      const PartStep& step = step_of(part, 4, 1 + k);
      CHECK(step.num_dependencies == 1);
      const Dependency& wait = part.dependencies[step.first_dependency];
      CHECK(wait.threadblock == 2 * k + 1 && wait.step == 0);
    }
  }
}

TEST(the_last_rank_and_the_last_step_end_with_the_tables) {
  const Tables tables(
      {{1, 1, 0}, {1, 1, 0}},
      {{0, kNoPeer, kNoPeer, 0, {{Opcode::nop}}},
       {1, kNoPeer, kNoPeer, 0, {{Opcode::nop}, {Opcode::cpy, {kInput, 0}, {kOutput, 0}, 1, {{0, 0}}}}}});
  const Part part = part_of(tables, 1);
  CHECK(part.blocks.size() == 1 && part.blocks[0].num_steps == 2);
  CHECK(step_of(part, 0, 1).num_dependencies == 1 && step_of(part, 0, 0).num_dependencies == 0);
}

TEST(a_rank_without_threadblocks_has_an_empty_part) {
  const Tables tables({{1, 0, 0}, {0, 0, 0}, {0, 1, 0}}, {{0, 2, kNoPeer, 0, {{Opcode::s, {kInput, 0}}}},
                                                          {2, kNoPeer, 0, 0, {{Opcode::r, {}, {kOutput, 0}}}}});
  const Part part = part_of(tables, 1);
  CHECK(part.blocks.empty() && part.steps.empty() && part.sends.empty() && part.receives.empty());
}

// Rank 0 sends on channels 9, 2 and 5 to rank 1, in this order of threadblocks, and nothing on channel 3.
Tables scattered_channels() {
  std::vector<HandBlock> blocks;
  for (const uint32_t channel : {9u, 3u, 2u, 5u}) {
    std::vector<HandStep> sends{{Opcode::s, {kInput, 0}}};
    if (channel == 3) sends = {{Opcode::nop}};
    blocks.push_back({0, 1, kNoPeer, channel, sends});
  }
  for (const uint32_t channel : {5u, 9u, 2u})
    blocks.push_back({1, kNoPeer, 0, channel, {{Opcode::r, {}, {kOutput, 0}}}});
  return {{{1, 1, 0}, {1, 1, 0}}, blocks};
}

TEST(both_ends_number_their_connections_alike_and_unused_channels_have_none) {
  const Tables tables = scattered_channels();
  const Part giver = part_of(tables, 0), taker = part_of(tables, 1);
  CHECK(giver.sends.size() == 3 && giver.receives.empty() && taker.receives.size() == 3 && taker.sends.empty());
  const auto index = [](const std::vector<Connection>& connections, int32_t row) {
    CHECK(row >= 0);
    return connections[static_cast<size_t>(row)].index;
  };
  const std::map<size_t, uint32_t> sent{{0, 2}, {2, 0}, {3, 1}}, received{{0, 1}, {1, 2}, {2, 0}};
  for (const auto& [block, number] : sent) CHECK(index(giver.sends, giver.blocks[block].send_connection) == number);
  for (const auto& [block, number] : received)
    CHECK(index(taker.receives, taker.blocks[block].receive_connection) == number);
  CHECK(giver.blocks[1].send_connection == -1);
}

TEST(connections_are_counted_by_peer) {
  const Part part = part_of(direct_all_to_all(4), 1);
  CHECK(part.sends.size() == 3 && part.receives.size() == 3);
  std::set<uint32_t> peers;
  for (const Connection& connection : part.sends) {
    CHECK(connection.index == 0);
    peers.insert(connection.peer);
  }
  CHECK((peers == std::set<uint32_t>{0, 2, 3}));
}

// Tiles are cut by it, and both ends of every message must cut alike.
TEST(the_largest_message_is_that_of_the_whole_plan) {
  const Tables tables({{4, 4, 0}, {4, 4, 0}, {4, 4, 0}},
                      {{0, 1, kNoPeer, 0, {{Opcode::s, {kInput, 0}, {}, 4}}},
                       {1, 2, 0, 0, {{Opcode::r, {}, {kOutput, 0}, 4}, {Opcode::s, {kInput, 0}, {}, 1}}},
                       {2, kNoPeer, 1, 0, {{Opcode::r, {}, {kOutput, 0}, 1}}}});
  for (uint32_t rank = 0; rank < 3; ++rank) CHECK(part_of(tables, rank).max_count == 4, "rank ", rank);
}

TEST(the_most_connections_are_those_of_the_busiest_rank) {
  const Tables star({{1, 0, 0}, {0, 1, 0}, {0, 1, 0}}, {{0, 1, kNoPeer, 0, {{Opcode::s, {kInput, 0}}}},
                                                        {0, 2, kNoPeer, 0, {{Opcode::s, {kInput, 0}}}},
                                                        {1, kNoPeer, 0, 0, {{Opcode::r, {}, {kOutput, 0}}}},
                                                        {2, kNoPeer, 0, 0, {{Opcode::r, {}, {kOutput, 0}}}}});
  for (uint32_t rank = 0; rank < 3; ++rank) CHECK(part_of(star, rank).max_sends == 2, "rank ", rank);
  CHECK(part_of(direct_all_to_all(5), 3).max_sends == 4);
  CHECK(part_of(direct_all_to_all(5), 3).every_receiver_sends &&
        part_of(ring_all_reduce(3, 1, 1), 0).every_receiver_sends);
  CHECK(!part_of(all_pairs_all_reduce(3), 0).every_receiver_sends, "some threadblocks only receive");
}

TEST(copies_within_a_rank_are_no_messages) {
  const Tables tables({{4, 4, 0}}, {{0, kNoPeer, kNoPeer, 0, {{Opcode::cpy, {kInput, 0}, {kOutput, 0}, 4}}}});
  CHECK(part_of(tables, 0).max_count == 1);
}

TEST(what_nobody_reads_is_streamed) {
  const Tables tables({{4, 4, 2}, {4, 4, 2}},
                      {{0,
                        1,
                        1,
                        0,
                        {{Opcode::r, {}, {kOutput, 0}},              // read by the next step
                         {Opcode::s, {kOutput, 0}},                  //
                         {Opcode::r, {}, {kOutput, 0}},              // read before, so still in the caches
                         {Opcode::r, {}, {kScratchBuffer, 0}},       // read by another threadblock
                         {Opcode::rrc, {kInput, 1}, {kInput, 1}}}},  // read by itself
                       {0, kNoPeer, kNoPeer, 0, {{Opcode::re, {kScratchBuffer, 0}, {kOutput, 1}, 1, {{0, 3}}}}},
                       {1,
                        0,
                        0,
                        0,
                        {{Opcode::s, {kInput, 0}},
                         {Opcode::r, {}, {kOutput, 3}},
                         {Opcode::s, {kInput, 0}},
                         {Opcode::s, {kInput, 0}},
                         {Opcode::s, {kInput, 0}}}}});
  const Part part = part_of(tables, 0);
  for (size_t k = 0; k < 5; ++k) CHECK(!step_of(part, 0, k).stream, "step ", k);
  CHECK(!step_of(part, 1, 0).stream, "the sum is read by itself");
  CHECK(!step_of(part_of(tables, 1), 0, 0).stream && step_of(part_of(tables, 1), 0, 1).stream);
}

TEST(in_place_a_reader_by_the_other_name_counts) {
  // Output chunk i is input chunk 2 + i (a reduce-scatter on rank 1 of two).
  const Tables tables({{4, 0, 0}, {4, 0, 0}}, {{0, kNoPeer, kNoPeer, 0, {{Opcode::nop}}},
                                               {1, 0, 0, 0, {{Opcode::r, {}, {kOutput, 0}}, {Opcode::s, {kInput, 2}}}},
                                               {1, kNoPeer, 0, 1, {{Opcode::r, {}, {kOutput, 1}}}}});
  const Part part = part_of(tables, 1, 2, kOutput, 2);
  CHECK(!step_of(part, 0, 0).stream && step_of(part, 1, 0).stream);
}

TEST(in_place_nothing_that_was_sent_first_is_streamed) {
  const std::vector<HandStep> exchange = {{Opcode::s, {kInput, 0}}, {Opcode::r, {}, {kOutput, 0}}};
  const Tables tables({{1, 0, 0}, {1, 0, 0}}, {{0, 1, 1, 0, exchange}, {1, 0, 0, 0, exchange}});
  CHECK(!step_of(part_of(tables, 0, 1, kOutput, 0), 0, 1).stream);
}

TEST(a_rank_that_the_plan_does_not_have_is_refused) {
  bool refused = false;
  try {
    part_of(all_pairs_all_reduce(2), 2);
  } catch (const std::runtime_error&) {
    refused = true;
  }
  CHECK(refused);
}

}  // namespace
}  // namespace hemiola::test
