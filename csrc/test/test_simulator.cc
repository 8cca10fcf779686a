// The simulator on plans by hand: every way to replay gives the same times, and those that can be worked out on paper.
#include "simulator/simulator.h"

#include <cmath>
#include <vector>

#include "test/check.h"
#include "test/plan_tables.h"

namespace hemiola::test {
namespace {

using simulator::Job, simulator::kNoResource, simulator::Options, simulator::Result, simulator::Setting,
    simulator::WorkResources;

constexpr double kInfinite = INFINITY;

bool same(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

// Ranks behind one switch: resources 2 r and 2 r + 1 are the links out of rank r and into it, 2 n + r is its adding.
struct Switch {
  Switch(const Tables& tables, double latency, double bandwidth, double add_bandwidth) {
    const uint32_t n = tables.num_ranks();
    capacities.assign(2 * n, bandwidth);
    capacities.resize(3 * n, add_bandwidth);
    first_hop.push_back(0);
    for (const Threadblock& block : tables.view().threadblocks) {
      if (block.send_peer != kNoPeer) {
        hops.push_back(2 * block.rank);
        hops.push_back(2 * block.send_peer + 1);
      }
      first_hop.push_back(static_cast<int64_t>(hops.size()));
      latencies.push_back(latency);
      const auto adds = static_cast<int32_t>(2 * n + block.rank);
      work.push_back({{adds, kNoResource}, {kNoResource, kNoResource}});
      message_bytes.push_back(0);
      direct.push_back(0);
    }
  }

  Setting setting(uint32_t slots) const {
    return {capacities, first_hop, hops, latencies, work, message_bytes, direct, slots};
  }

  std::vector<double> capacities, latencies, message_bytes;
  std::vector<uint8_t> direct;
  std::vector<int64_t> first_hop, hops;
  std::vector<WorkResources> work;
};

Result replay(const Tables& tables, const Switch& network, const std::vector<double>& tiles, const Options& options) {
  const std::vector<Job> jobs{{tables.view(), tiles, 1e-3, kInfinite, kInfinite, kInfinite}};
  return simulator::simulate(jobs, network.setting(4), options);
}

// All ways to replay, which agree; the path covers all of the time.
double seconds_of(const Tables& tables, const Switch& network, const std::vector<double>& tiles) {
  const Result usual = replay(tables, network, tiles, {});
  CHECK(usual.ended);
  for (const bool fold : {false, true})
    for (const uint64_t most_records : {uint64_t{0}, uint64_t{1} << 20})
      for (const bool events : {false, true}) {
        const Result other = replay(tables, network, tiles, {fold, most_records, events});
        CHECK(other.ended && same(other.seconds, usual.seconds), other.seconds, " and ", usual.seconds);
        for (size_t k = 0; k < usual.block_seconds.size(); ++k)
          CHECK(same(other.block_seconds[k], usual.block_seconds[k]));
        if (most_records == 0) continue;
        double sum = 0;
        for (const simulator::PathPiece& piece : other.path) sum += piece.end - piece.begin;
        CHECK(same(sum, usual.seconds), sum, " of ", usual.seconds);
      }
  return usual.seconds;
}

TEST(a_ring_takes_its_steps_one_after_another) {
  for (const uint32_t n : {2u, 3u, 8u}) {
    const Tables tables = ring_all_reduce(n, 1, 1);
    const double found = seconds_of(tables, Switch(tables, 0.25, 1000, kInfinite), {500, 500, 250});
    if (n == 2) continue;  // there a tile begins before the last one has arrived
    const double expected = 2 * (n - 1) * (3 * (0.25 + 1e-3) + 1.25);
    CHECK(same(found, expected), found, " instead of ", expected);
  }
}

TEST(rings_on_the_same_links_share_them) {
  const Tables one = ring_all_reduce(4, 1, 1), two = ring_all_reduce(4, 1, 2);
  const double alone = seconds_of(one, Switch(one, 0, 1000, kInfinite), {1e6});
  CHECK(same(seconds_of(two, Switch(two, 0, 1000, kInfinite), {1e6}), 2 * alone - 6e-3));  // each step costs once
}

TEST(equal_ranks_are_folded_and_a_slow_link_stops_that) {
  const Tables tables = ring_all_reduce(16, 1, 1);
  Switch network(tables, 0, 1000, kInfinite);
  CHECK(replay(tables, network, {100}, {}).num_simulated == 31);
  network.capacities[0] = 10;
  CHECK(replay(tables, network, {100}, {}).num_simulated == 16 * 31);
  seconds_of(tables, network, {100, 100, 50});
}

TEST(exchanges_of_all_pairs_share_links_and_adding) {
  for (const uint32_t n : {2u, 3u, 5u}) {
    const Tables reducing = all_pairs_all_reduce(n), moving = direct_all_to_all(n);
    seconds_of(reducing, Switch(reducing, 1e-2, 1000, 300), {100, 100, 100, 7});
    const double found = seconds_of(moving, Switch(moving, 1e-2, 1000, 300), {100});
    CHECK(same(found, (n - 1) * 0.1 + 1e-2 + 1e-3), found);
  }
}

TEST(who_waits_forever_is_noticed) {
  const Tables tables({{1, 1, 0}, {1, 1, 0}},
                      {{0, kNoPeer, 1, 0, {{Opcode::r, {}, {kOutput, 0}}}}, {1, kNoPeer, kNoPeer, 0, {{Opcode::nop}}}});
  for (const bool events : {false, true})
    CHECK(!replay(tables, Switch(tables, 0, 1, 1), {1}, {false, 0, events}).ended);
}

TEST(no_data_takes_no_time) {
  const Tables tables = ring_all_reduce(4, 1, 1);
  CHECK(seconds_of(tables, Switch(tables, 1, 1, 1), {}) == 0);
}

}  // namespace
}  // namespace hemiola::test
