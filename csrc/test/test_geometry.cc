// Geometry: chunks and tiles cover every element of every buffer exactly once, whatever the sizes.
#include "runtime/geometry.h"

#include <numeric>
#include <random>
#include <vector>

#include "test/check.h"

namespace hemiola::test {
namespace {

using runtime::CallShape, runtime::ElementType, runtime::Geometry, runtime::kLine, runtime::Part, runtime::RanksOn;

struct Case {
  uint32_t block_chunks, num_blocks, max_count, max_sends, slot_bytes, message_bytes;
  uint64_t elements;
  ElementType type;
  RanksOn ranks_on;
};

Part part_of(const Case& c) {
  Part part{};
  part.shape = {0, c.block_chunks};
  part.num_chunks[0] = part.num_chunks[1] = c.block_chunks * c.num_blocks;
  part.num_chunks[2] = 3;
  part.max_count = c.max_count;
  part.max_sends = c.max_sends;
  return part;
}

CallShape call_of(const Case& c) {
  CallShape call;
  call.type = c.type;
  call.elements = c.elements;
  call.message_bytes = c.message_bytes;
  return call;
}

Case random_case(std::mt19937_64& random) {
  const auto pick = [&](std::vector<uint32_t> values) { return values[random() % values.size()]; };
  Case c{};
  c.type = static_cast<ElementType>(random() % runtime::kNumTypes);
  c.block_chunks = pick({1, 1, 2, 3, 4, 7, 12});
  c.num_blocks = pick({1, 2, 3});
  c.slot_bytes = pick({64, 128, 1024, 1u << 17});
  c.max_count = pick({1, 1, 2, 3, 8});
  c.max_sends = pick({1, 7, 100});
  c.message_bytes = pick({0, 0, 1, 64, 200, 1u << 20});
  c.ranks_on = static_cast<RanksOn>(random() % 3);
  c.elements = random() % 3 == 0 ? random() % 20 : random() % 30000;
  return c;
}

// Counts for each element of a buffer how often tiles of chunks cover it.
std::vector<int> count_main(const Geometry& geometry, uint32_t buffer, uint64_t num_chunks, uint64_t num_elements) {
  std::vector<int> covered(num_elements, 0);
  for (uint64_t tile = 0; tile < geometry.num_tiles() && !geometry.is_remainder(tile); ++tile)
    for (uint64_t index = 0; index < num_chunks; ++index) {
      const uint64_t first = geometry.offset(buffer, index, tile), length = geometry.length(buffer, index, tile);
      if (length == 0) continue;
      CHECK(first + length <= num_elements, "chunk ", index, " of tile ", tile, " ends at ", first + length);
      for (uint64_t k = first; k < first + length; ++k) ++covered[k];
    }
  return covered;
}

TEST(tiles_and_the_remainder_cover_every_element_once) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 600; ++round) {
    const Case c = random_case(random);
    const Part part = part_of(c);
    const CallShape call = call_of(c);
    if (c.max_count * runtime::element_size(c.type) > c.slot_bytes) continue;
    const Geometry geometry(part, call, c.slot_bytes, c.ranks_on);
    for (const uint32_t buffer : {0u, 1u}) {
      const auto covered = count_main(geometry, buffer, part.num_chunks[buffer], c.num_blocks * c.elements);
      for (uint64_t k = 0; k < covered.size(); ++k) {
        const bool in_remainder = k % c.elements >= c.block_chunks * geometry.chunk();
        CHECK(covered[k] == (in_remainder ? 0 : 1), "element ", k, " is covered ", covered[k], " times");
      }
      CHECK((c.elements - c.block_chunks * geometry.chunk()) <= c.block_chunks * geometry.remainder());
    }
    const auto scratch = count_main(geometry, kScratch, part.num_chunks[2], part.num_chunks[2] * geometry.chunk());
    CHECK(std::ranges::all_of(scratch, [](int times) { return times == 1; }));
  }
}

TEST(the_remainder_is_padded_so_that_every_chunk_has_as_much) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 300; ++round) {
    const Case c = random_case(random);
    const Part part = part_of(c);
    const CallShape call = call_of(c);
    if (c.max_count * runtime::element_size(c.type) > c.slot_bytes) continue;
    const Geometry geometry(part, call, c.slot_bytes, c.ranks_on);
    std::vector<int> covered(part.num_chunks[0] * geometry.remainder(), 0);
    uint64_t remainder_tiles = 0;
    for (uint64_t tile = 0; tile < geometry.num_tiles(); ++tile) {
      if (!geometry.is_remainder(tile)) continue;
      ++remainder_tiles;
      for (uint64_t index = 0; index < part.num_chunks[0]; ++index) {
        const uint64_t first = geometry.offset(0, index, tile);
        for (uint64_t k = first; k < first + geometry.length(0, index, tile); ++k) ++covered.at(k);
      }
    }
    CHECK(std::ranges::all_of(covered, [](int times) { return times == 1; }));
    CHECK((remainder_tiles > 0) == (c.elements % c.block_chunks != 0),
          "a remainder is there where shares do not divide");
  }
}

TEST(a_message_of_any_tile_fits_in_a_slot_and_in_what_was_asked) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 600; ++round) {
    const Case c = random_case(random);
    const size_t size = runtime::element_size(c.type);
    if (c.max_count * size > c.slot_bytes) continue;
    const Part part = part_of(c);
    const CallShape call = call_of(c);
    const Geometry geometry(part, call, c.slot_bytes, c.ranks_on);
    for (uint64_t tile = 0; tile < geometry.num_tiles(); ++tile) {
      const uint64_t bytes = geometry.length(0, 0, tile) * c.max_count * size;
      CHECK(bytes <= c.slot_bytes && bytes > 0);
      // One element a chunk is the least, however little was asked for.
      CHECK(c.message_bytes == 0 || bytes <= std::max<uint64_t>(c.message_bytes, c.max_count * size));
    }
  }
}

TEST(messages_over_one_connection_are_as_large_as_is_best_where_the_ranks_are) {
  constexpr uint32_t kSlot = 1 << 20;
  const auto first_message = [](uint64_t chunk_bytes, uint32_t max_sends, RanksOn ranks_on, uint32_t slot = 1 << 20) {
    const Case c{3, 1, 1, max_sends, slot, 0, 3 * chunk_bytes / 4, ElementType::f32, ranks_on};
    const Part part = part_of(c);
    const CallShape call = call_of(c);
    return Geometry(part, call, c.slot_bytes, c.ranks_on).length(0, 0, 0) * 4;
  };
  CHECK(first_message(2 * kSlot, 1, RanksOn::own_cores) == kSlot);
  CHECK(first_message(8 * kSlot, 1, RanksOn::own_cores) == kSlot);
  CHECK(first_message(2 * kSlot - 128, 1, RanksOn::own_cores) == kSlot - 64);
  CHECK(first_message(kSlot, 1, RanksOn::own_cores) == kSlot / 2);
  CHECK(first_message(kSlot - 4, 1, RanksOn::own_cores) == 256 << 10);
  CHECK(first_message(2 * kSlot, 1, RanksOn::shared_cores) == 512 << 10);
  CHECK(first_message(2 * kSlot, 1, RanksOn::shared_cores, 64 << 10) == 64 << 10);
  CHECK(first_message(2 * kSlot, 1, RanksOn::several_hosts) == 256 << 10);
  for (const RanksOn ranks_on : {RanksOn::several_hosts, RanksOn::shared_cores, RanksOn::own_cores}) {
    CHECK(first_message(2 * kSlot, 2, ranks_on) == 192 << 10);
    CHECK(first_message(2 * kSlot, 100, ranks_on) == 16 << 10);
  }
}

TEST(tiles_alone_are_those_of_the_geometry) {
  std::mt19937_64 random(9);
  for (int round = 0; round < 300; ++round) {
    const Case c = random_case(random);
    const size_t size = runtime::element_size(c.type);
    if (c.max_count * size > c.slot_bytes) continue;
    const Part part = part_of(c);
    const CallShape call = call_of(c);
    const Geometry geometry(part, call, c.slot_bytes, c.ranks_on);
    const runtime::Cut cut{c.block_chunks, c.max_count, c.max_sends};
    const runtime::Tiles tiles(cut, {c.elements, size, c.message_bytes}, c.slot_bytes, c.ranks_on);
    CHECK(tiles.num_tiles() == geometry.num_tiles());
    uint64_t covered = 0;
    for (uint64_t tile = 0; tile < tiles.num_tiles(); ++tile) {
      CHECK(tiles.length(tile) == geometry.length(0, 0, tile) && tiles.length(tile) > 0);
      CHECK(tiles.is_remainder(tile) == geometry.is_remainder(tile));
      covered += tiles.length(tile);
    }
    CHECK(covered == tiles.chunk() + tiles.remainder());
  }
}

TEST(a_ring_of_two_sends_whole_slots_where_each_rank_has_a_core) {
  const auto first_message = [](RanksOn ranks_on) {
    return runtime::Tiles({2, 1, 1}, {(64 << 20) / 4, 4}, 1 << 20, ranks_on).length(0) * 4;
  };
  CHECK(first_message(RanksOn::own_cores) == 1 << 20);
  CHECK(first_message(RanksOn::shared_cores) == 512 << 10);
  CHECK(first_message(RanksOn::several_hosts) == 256 << 10);
}

TEST(where_ranks_are_follows_from_hosts_and_cores) {
  CHECK(runtime::locate_ranks(4, 2, 1) == RanksOn::several_hosts);
  CHECK(runtime::locate_ranks(4, 2, 2) == RanksOn::several_hosts);
  CHECK(runtime::locate_ranks(4, 4, 2) == RanksOn::shared_cores);
  CHECK(runtime::locate_ranks(4, 4, 1) == RanksOn::own_cores);
}

TEST(where_tiles_are_contiguous_neighbours_follow_each_other) {
  std::mt19937_64 random(6);
  int contiguous = 0;
  for (int round = 0; round < 600; ++round) {
    const Case c = random_case(random);
    if (c.max_count * runtime::element_size(c.type) > c.slot_bytes) continue;
    const Part part = part_of(c);
    const CallShape call = call_of(c);
    const Geometry geometry(part, call, c.slot_bytes, c.ranks_on);
    for (uint64_t tile = 0; tile < geometry.num_tiles(); ++tile) {
      if (!geometry.is_contiguous(tile)) continue;
      ++contiguous;
      for (const uint32_t buffer : {0u, 1u, kScratch})
        for (uint64_t index = 0; index + 1 < part.num_chunks[buffer]; ++index)
          CHECK(geometry.offset(buffer, index + 1, tile) ==
                geometry.offset(buffer, index, tile) + geometry.length(buffer, index, tile));
    }
  }
  CHECK(contiguous > 50);
}

TEST(the_remainder_goes_to_its_padded_place_and_back) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    Case c = random_case(random);
    c.type = ElementType::i64;
    if (c.max_count * 8 > c.slot_bytes) continue;
    const Part part = part_of(c);
    const CallShape call = call_of(c);
    const Geometry geometry(part, call, c.slot_bytes, c.ranks_on);
    if (geometry.remainder() == 0) continue;
    std::vector<int64_t> data(c.num_blocks * c.elements), padded(part.num_chunks[0] * geometry.remainder(), -1);
    std::iota(data.begin(), data.end(), 0);
    const std::vector<int64_t> before = data;
    auto* bytes = reinterpret_cast<std::byte*>(data.data());
    auto* places = reinterpret_cast<std::byte*>(padded.data());
    geometry.copy_remainder(bytes, places, part.num_chunks[0], false);
    uint64_t copied = 0;
    for (const int64_t value : padded) copied += value >= 0;
    CHECK(copied == c.num_blocks * (c.elements - c.block_chunks * geometry.chunk()));
    for (int64_t& value : padded) value = value < 0 ? value : value + 1'000'000;
    geometry.copy_remainder(bytes, places, part.num_chunks[0], true);
    for (uint64_t k = 0; k < data.size(); ++k) {
      const bool in_remainder = k % c.elements >= c.block_chunks * geometry.chunk();
      CHECK(data[k] == before[k] + (in_remainder ? 1'000'000 : 0), "element ", k);
    }
  }
}

TEST(with_lengths_every_chunk_is_covered_once) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 200; ++round) {
    const auto num_chunks = static_cast<uint32_t>(1 + random() % 6);
    Case c{1, num_chunks, 1, 1, 128, 0, 0, ElementType::f32, RanksOn::own_cores};
    CallShape call = call_of(c);
    uint64_t sums[2] = {0, 0};
    for (uint32_t k = 0; k < num_chunks; ++k) {
      call.input_lengths.push_back(random() % 4 == 0 ? 0 : random() % 200);
      call.output_lengths.push_back(random() % 200);
      sums[0] += call.input_lengths.back();
      sums[1] += call.output_lengths.back();
    }
    const Part part = part_of(c);
    const Geometry geometry(part, call, c.slot_bytes, c.ranks_on);
    CHECK(geometry.remainder() == 0);
    for (const uint32_t buffer : {0u, 1u}) {
      const auto covered = count_main(geometry, buffer, num_chunks, sums[buffer]);
      CHECK(std::ranges::all_of(covered, [](int times) { return times == 1; }));
    }
  }
}

TEST(a_message_that_cannot_fit_is_refused) {
  const Case c{2, 1, 9, 1, 64, 0, 100, ElementType::f64, RanksOn::own_cores};
  const Part part = part_of(c);
  const CallShape call = call_of(c);
  bool refused = false;
  try {
    const Geometry geometry(part, call, c.slot_bytes, c.ranks_on);
  } catch (const std::runtime_error&) {
    refused = true;
  }
  CHECK(refused);
}

}  // namespace
}  // namespace hemiola::test
