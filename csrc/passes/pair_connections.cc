#include <algorithm>
#include <functional>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "passes/passes.h"

namespace hemiola {
namespace {

struct Turn {  // what comes from one peer and goes on to another
  uint32_t rank;
  int32_t channel, recv_peer, send_peer;
  bool operator==(const Turn&) const = default;
};

struct TurnHash {
  size_t operator()(const Turn& t) const {
    uint64_t x = uint64_t{t.rank} << 32 | static_cast<uint32_t>(t.channel);
    x = (x ^ (x >> 29)) * 0x9e3779b97f4a7c15ULL;
    x ^= uint64_t{static_cast<uint32_t>(t.recv_peer)} << 32 | static_cast<uint32_t>(t.send_peer);
    x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9ULL;
    return x ^ (x >> 30);
  }
};

Turn turn_of(const Instruction& row) { return {row.rank, row.channel, row.recv_peer, row.send_peer}; }

using TurnSet = std::unordered_set<Turn, TurnHash>;

// The most frequent turns first, each accepted when neither of its peers has another one there. Connections
// of threadblocks placed by hand belong to those.
TurnSet choose_turns(Instructions instructions) {
  std::unordered_map<Turn, uint32_t, TurnHash> times;
  TurnSet chosen, taken;
  for (const Instruction& row : instructions) {
    if (row.threadblock != kAutomatic) {
      taken.insert({row.rank, row.channel, row.recv_peer, kNoPeer});
      taken.insert({row.rank, row.channel, kNoPeer, row.send_peer});
    } else if (is_fused(row)) {
      ++times[turn_of(row)];
    }
  }
  std::vector<std::pair<Turn, uint32_t>> turns(times.begin(), times.end());
  std::ranges::sort(turns, [](const auto& a, const auto& b) {
    return std::tuple(b.second, a.first.rank, a.first.channel, a.first.recv_peer, a.first.send_peer) <
           std::tuple(a.second, b.first.rank, b.first.channel, b.first.recv_peer, b.first.send_peer);
  });
  for (const auto& [turn, count] : turns) {
    const Turn from{turn.rank, turn.channel, turn.recv_peer, kNoPeer},
        to{turn.rank, turn.channel, kNoPeer, turn.send_peer};
    if (taken.contains(from) || taken.contains(to)) continue;
    taken.insert(from);
    taken.insert(to);
    chosen.insert(turn);
  }
  return chosen;
}

// Splits the fused rows for which `keep` is false; each half goes back to the place of its operation.
std::vector<Instruction> split(Instructions instructions, const std::function<bool(const Instruction&)>& keep) {
  std::vector<std::pair<uint32_t, Instruction>> sends;
  for (const Instruction& row : instructions)
    if (is_fused(row) && !keep(row)) sends.emplace_back(row.send_operation, sending_half(row));
  if (sends.empty()) return {instructions.begin(), instructions.end()};
  std::ranges::sort(sends, {}, [](const auto& s) { return s.first; });
  std::vector<Instruction> rows;
  rows.reserve(instructions.size() + sends.size());
  size_t next = 0;
  for (const Instruction& row : instructions) {
    const uint32_t at = row.recv_operation != kNone ? row.recv_operation : row.send_operation;
    while (next < sends.size() && sends[next].first <= at) rows.push_back(sends[next++].second);
    rows.push_back(is_fused(row) && !keep(row) ? receiving_half(row) : row);
  }
  while (next < sends.size()) rows.push_back(sends[next++].second);
  return rows;
}

}  // namespace

std::vector<Instruction> pair_connections(Instructions instructions) {
  const TurnSet chosen = choose_turns(instructions);
  return split(instructions,
               [&](const Instruction& row) { return row.threadblock != kAutomatic || chosen.contains(turn_of(row)); });
}

std::vector<Instruction> unfuse(Instructions instructions) {
  return split(instructions, [](const Instruction&) { return false; });
}

}  // namespace hemiola
