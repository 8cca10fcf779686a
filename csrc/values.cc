#include "values.h"

#include <algorithm>
#include <bit>
#include <map>

namespace hemiola {
namespace {

uint64_t mix(uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ULL;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ULL;
  return x ^ (x >> 32);
}

uint64_t hash_words(std::span<const uint64_t> words, uint64_t seed) {
  uint64_t hash = seed + words.size();
  for (uint64_t word : words) hash = mix(hash ^ word);
  return hash;
}

void push_run(std::vector<uint64_t>& runs, uint64_t lo, uint64_t hi) {
  if (!runs.empty() && runs.back() == lo) {
    runs.back() = hi;
  } else {
    runs.push_back(lo);
    runs.push_back(hi);
  }
}

// Words of 64 atoms that a bitmap of these sorted runs would take.
uint64_t bitmap_words(std::span<const uint64_t> runs) { return (runs.back() - 1) / 64 - runs.front() / 64 + 1; }

uint64_t hash_node(uint32_t lhs, uint32_t rhs, int32_t shift) {
  return mix((uint64_t{lhs} << 32 | rhs) ^ mix(static_cast<uint32_t>(shift)));
}

uint32_t up(int32_t shift) { return shift > 0 ? static_cast<uint32_t>(shift) : 0; }
uint32_t down(int32_t shift) { return shift < 0 ? static_cast<uint32_t>(-shift) : 0; }

}  // namespace

AtomSets::AtomSets() : table_(1024, 0) {
  entries_.push_back({0, 0, 0, 0});
  entries_.push_back({0, 0, 0, 1});
}

AtomSets::Id AtomSets::of_runs(std::span<const uint64_t> runs) {
  merged_.clear();
  for (size_t i = 0; i + 1 < runs.size(); i += 2) push_run(merged_, runs[i], runs[i + 1]);
  return intern_canonical(merged_);
}

// One form per set: a bitmap exactly where it is smaller than the runs.
AtomSets::Id AtomSets::intern_canonical(std::span<const uint64_t> runs) {
  if (runs.empty() || runs.size() <= 1 + bitmap_words(runs)) return intern(runs, false);
  const uint64_t first = runs.front() / 64;
  words_.assign(1 + bitmap_words(runs), 0);
  words_[0] = first;
  for (size_t i = 0; i < runs.size(); i += 2)
    for (uint64_t atom = runs[i]; atom < runs[i + 1]; ++atom) words_[1 + atom / 64 - first] |= uint64_t{1} << (atom % 64);
  return intern(words_, true);
}

AtomSets::Id AtomSets::intern(std::span<const uint64_t> words, bool bitmap) {
  const uint64_t hash = hash_words(words, bitmap);
  for (size_t at = hash & (table_.size() - 1);; at = (at + 1) & (table_.size() - 1)) {
    if (table_[at] == 0) {
      const auto id = static_cast<Id>(entries_.size());
      table_[at] = id + 1;
      entries_.push_back({pool_.size(), static_cast<uint32_t>(words.size()), bitmap, hash});
      pool_.insert(pool_.end(), words.begin(), words.end());
      if (entries_.size() * 2 > table_.size()) grow();
      return id;
    }
    const Entry& known = entries_[table_[at] - 1];
    if (known.hash == hash && known.bitmap == bitmap && std::ranges::equal(payload(known), words))
      return table_[at] - 1;
  }
}

void AtomSets::grow() {
  table_.assign(table_.size() * 2, 0);
  for (size_t id = 2; id < entries_.size(); ++id) {
    size_t at = entries_[id].hash & (table_.size() - 1);
    while (table_[at] != 0) at = (at + 1) & (table_.size() - 1);
    table_[at] = static_cast<uint32_t>(id) + 1;
  }
}

AtomSets::Id AtomSets::disjoint_union(Id a, uint64_t shift_a, Id b, uint64_t shift_b) {
  if (a == kDoubleCounted || b == kDoubleCounted) return kDoubleCounted;
  unpack(a, shift_a, runs_a_);
  unpack(b, shift_b, runs_b_);
  merged_.clear();
  size_t i = 0, j = 0;
  while (i < runs_a_.size() || j < runs_b_.size()) {
    const bool from_a = j == runs_b_.size() || (i < runs_a_.size() && runs_a_[i] < runs_b_[j]);
    const auto& source = from_a ? runs_a_ : runs_b_;
    size_t& at = from_a ? i : j;
    if (!merged_.empty() && source[at] < merged_.back()) return kDoubleCounted;
    push_run(merged_, source[at], source[at + 1]);
    at += 2;
  }
  return intern_canonical(merged_);
}

void AtomSets::unpack(Id id, uint64_t shift, std::vector<uint64_t>& runs) const {
  runs.clear();
  const Entry& e = entries_[id];
  const auto words = payload(e);
  if (!e.bitmap) {
    for (uint64_t end : words) runs.push_back(end + shift);
    return;
  }
  for (size_t i = 1; i < words.size(); ++i) {
    const uint64_t base = (words[0] + i - 1) * 64 + shift;
    for (uint64_t word = words[i]; word != 0;) {
      const auto lo = static_cast<uint64_t>(std::countr_zero(word));
      const auto length = static_cast<uint64_t>(std::countr_one(word >> lo));
      push_run(runs, base + lo, base + lo + length);
      word &= lo + length >= 64 ? 0 : ~uint64_t{0} << (lo + length);
    }
  }
}

// Nodes 1 .. num_ranks are the inputs of the ranks.
Values::Values(uint32_t num_ranks) : num_ranks_(num_ranks), table_(1024, 0) {
  nodes_.push_back({0, 0, 0, AtomSets::kGarbage});
  for (uint32_t rank = 0; rank < num_ranks; ++rank) {
    const uint64_t run[2] = {rank, uint64_t{rank} + 1};
    nodes_.push_back({rank, 0, 0, sets_.of_runs(run)});
  }
  while (nodes_.size() * 2 > table_.size()) table_.resize(table_.size() * 2, 0);
}

Value Values::add(Value a, Value b) {
  if (a == kGarbage || b == kGarbage) return kGarbage;
  if (b < a) std::swap(a, b);
  const auto shift = static_cast<int32_t>(static_cast<int64_t>(b.base) - static_cast<int64_t>(a.base));
  return {intern(a.expression, b.expression, shift), std::min(a.base, b.base)};
}

uint32_t Values::intern(uint32_t lhs, uint32_t rhs, int32_t shift) {
  for (size_t at = hash_node(lhs, rhs, shift) & (table_.size() - 1);; at = (at + 1) & (table_.size() - 1)) {
    if (table_[at] == 0) {
      const auto id = static_cast<uint32_t>(nodes_.size());
      table_[at] = id;
      nodes_.push_back({lhs, rhs, shift,
                        sets_.disjoint_union(nodes_[lhs].set, uint64_t{down(shift)} * num_ranks_, nodes_[rhs].set,
                                             uint64_t{up(shift)} * num_ranks_)});
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

// Multiplicities flow from the expression down to its atoms. Operands have smaller numbers than sums, so going
// from high to low visits a value after all its users; a count stops early, enough to say "twice" without
// overflow on an expression that doubles itself.
std::vector<std::pair<uint32_t, uint32_t>> Values::contributions(Value value) const {
  constexpr uint32_t kMany = 4;
  std::map<Value, uint32_t> times{{value, 1}};
  std::vector<std::pair<uint32_t, uint32_t>> result;
  while (!times.empty() && value != kGarbage) {
    const auto [at, count] = *times.rbegin();
    times.erase(at);
    const Node& node = nodes_[at.expression];
    if (node.rhs == 0) {
      result.insert(result.end(), count, {node.lhs, at.base});
      continue;
    }
    for (const Value& operand : {Value{node.lhs, at.base + down(node.shift)}, Value{node.rhs, at.base + up(node.shift)}})
      times[operand] = std::min(kMany, times[operand] + count);
  }
  std::ranges::sort(result);
  return result;
}

}  // namespace hemiola
