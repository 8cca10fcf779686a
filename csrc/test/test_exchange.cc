// A step that receives and the next one, which sends, in one sweep: where it is done, and where it must not be.
#include <cstdint>
#include <vector>

#include "test/calls.h"

namespace hemiola::test {
namespace {

using runtime::TraceEvent;

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
    blocks.push_back({static_cast<uint32_t>(rank),
                      1 - rank,
                      1 - rank,
                      0,
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

}  // namespace
}  // namespace hemiola::test
