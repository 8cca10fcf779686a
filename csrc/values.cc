#include "values.h"

#include <algorithm>
#include <map>

namespace hemiola {
namespace {

// The atom (rank, delta) is the number (delta + kMiddle) * num_ranks + rank; deltas may be negative.
constexpr int64_t kMiddle = int64_t{1} << 30;

uint64_t hash_node(uint32_t lhs, uint32_t rhs, int32_t shift) {
  uint64_t x = (uint64_t{lhs} << 32 | rhs) ^ uint64_t { static_cast<uint32_t>(shift) } * 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ULL;
  return x ^ (x >> 32);
}

}  // namespace

// Nodes 1 .. num_ranks are the inputs of the ranks.
Values::Values(uint32_t num_ranks) : num_ranks_(num_ranks), table_(1024, 0) {
  nodes_.push_back({0, 0, 0, 0, AtomSets::kGarbage});
  for (uint32_t rank = 0; rank < num_ranks; ++rank) {
    const uint64_t atom = static_cast<uint64_t>(kMiddle) * num_ranks + rank;
    const uint64_t run[2] = {atom, atom + 1};
    nodes_.push_back({rank, 0, 0, 1, sets_.of_runs(run)});
  }
  while (nodes_.size() * 2 > table_.size()) table_.resize(table_.size() * 2, 0);
}

// The base of a sum is that of its larger operand, so that the smaller set is the one to be shifted.
Value Values::add(Value a, Value b) {
  if (a == kGarbage || b == kGarbage) return kGarbage;
  if (b < a) std::swap(a, b);
  const auto shift = static_cast<int32_t>(static_cast<int64_t>(a.base) - static_cast<int64_t>(b.base));
  const uint32_t base = keeps_left_base(a.expression, b.expression) ? a.base : b.base;
  return {intern(a.expression, b.expression, shift), base};
}

uint32_t Values::intern(uint32_t lhs, uint32_t rhs, int32_t shift) {
  for (size_t at = hash_node(lhs, rhs, shift) & (table_.size() - 1);; at = (at + 1) & (table_.size() - 1)) {
    if (table_[at] == 0) {
      const auto id = static_cast<uint32_t>(nodes_.size());
      table_[at] = id;
      const bool left = keeps_left_base(lhs, rhs);
      const AtomSets::Id stays = nodes_[left ? lhs : rhs].set;
      const AtomSets::Id moves =
          sets_.shifted(nodes_[left ? rhs : lhs].set, (left ? -int64_t{shift} : shift) * num_ranks_);
      const uint64_t size = std::min<uint64_t>(uint64_t{nodes_[lhs].size} + nodes_[rhs].size, 0xffffffff);
      nodes_.push_back({lhs, rhs, shift, static_cast<uint32_t>(size), sets_.disjoint_union(moves, stays)});
      if (nodes_.size() * 2 > table_.size()) grow();
      return id;
    }
    const Node& known = nodes_[table_[at]];
    if (known.lhs == lhs && known.rhs == rhs && known.shift == shift) return table_[at];
  }
}

void Values::grow() {
  table_.assign(table_.size() * 2, 0);
  for (size_t id = num_ranks_ + 1; id < nodes_.size(); ++id) {
    size_t at = hash_node(nodes_[id].lhs, nodes_[id].rhs, nodes_[id].shift) & (table_.size() - 1);
    while (table_[at] != 0) at = (at + 1) & (table_.size() - 1);
    table_[at] = static_cast<uint32_t>(id);
  }
}

Values::Sum Values::sum_of(Value value) {
  const AtomSets::Id set = nodes_[value.expression].set;
  if (set <= AtomSets::kDoubleCounted) return {set, 0};
  const int64_t delta = static_cast<int64_t>(sets_.smallest(set) / num_ranks_) - kMiddle;
  const auto base = static_cast<uint32_t>(static_cast<int64_t>(value.base) + delta);
  if (delta == 0) return {set, base};
  const auto [at, is_new] = normal_.try_emplace(set, set);
  if (is_new) at->second = sets_.shifted(set, -delta * num_ranks_);
  return {at->second, base};
}

AtomSets::Id Values::promised(std::span<const uint64_t> runs) {
  std::vector<uint64_t> placed(runs.begin(), runs.end());
  for (uint64_t& end : placed) end += static_cast<uint64_t>(kMiddle) * num_ranks_;
  return sets_.of_runs(placed);
}

// Multiplicities flow from the expression down to its atoms. Operands have smaller numbers than sums, so going
// from high to low visits a value after all its users; a count stops early, enough to say "twice" without
// overflow on an expression that doubles itself.
std::optional<std::vector<std::pair<uint32_t, uint32_t>>> Values::contributions(Value value) const {
  constexpr uint32_t kMany = 4;
  constexpr size_t kTooLong = 1 << 18;
  std::map<Value, uint32_t> times{{value, 1}};
  std::vector<std::pair<uint32_t, uint32_t>> result;
  while (!times.empty() && value != kGarbage) {
    if (times.size() + result.size() > kTooLong) return std::nullopt;
    const auto [at, count] = *times.rbegin();
    times.erase(at);
    const Node& node = nodes_[at.expression];
    if (node.rhs == 0) {
      result.insert(result.end(), count, {node.lhs, at.base});
      continue;
    }
    const auto shift = static_cast<uint32_t>(node.shift);
    const bool left = keeps_left_base(node.lhs, node.rhs);
    const uint32_t lhs_base = left ? at.base : at.base + shift, rhs_base = left ? at.base - shift : at.base;
    for (const Value& operand : {Value{node.lhs, lhs_base}, Value{node.rhs, rhs_base}})
      times[operand] = std::min(kMany, times[operand] + count);
  }
  std::ranges::sort(result);
  return result;
}

}  // namespace hemiola
