#include "values.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

namespace hemiola {
namespace {

uint64_t mix(uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ULL;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ULL;
  return x ^ (x >> 32);
}

uint64_t hash_words(std::span<const uint32_t> words, uint64_t seed) {
  uint64_t hash = seed + words.size();
  for (uint32_t word : words) hash = mix(hash ^ word);
  return hash;
}

void push_run(std::vector<uint32_t>& runs, uint32_t lo, uint32_t hi) {
  if (!runs.empty() && runs.back() == lo) {
    runs.back() = hi;
  } else {
    runs.push_back(lo);
    runs.push_back(hi);
  }
}

// Words of 64 atoms that a bitmap of these sorted runs would take.
uint32_t bitmap_words(std::span<const uint32_t> runs) {
  return (runs.back() - 1) / 64 - runs.front() / 64 + 1;
}

}  // namespace

AtomSets::AtomSets() : table_(1024, 0) {
  entries_.push_back({0, 0, 0, 0});
  entries_.push_back({0, 0, 0, 1});
}

AtomSets::Id AtomSets::of_atom(uint32_t atom) {
  const uint32_t run[2] = {atom, atom + 1};
  return intern(run, false);
}

AtomSets::Id AtomSets::of_runs(std::span<const uint32_t> runs) {
  merged_.clear();
  for (size_t i = 0; i + 1 < runs.size(); i += 2) push_run(merged_, runs[i], runs[i + 1]);
  return intern_canonical(merged_);
}

// One form per set: a bitmap exactly where it is smaller than the runs.
AtomSets::Id AtomSets::intern_canonical(std::span<const uint32_t> runs) {
  if (runs.empty() || runs.size() <= 1 + 2 * size_t{bitmap_words(runs)}) return intern(runs, false);
  const uint32_t first = runs.front() / 64;
  words_.assign(bitmap_words(runs), 0);
  for (size_t i = 0; i < runs.size(); i += 2)
    for (uint32_t atom = runs[i]; atom < runs[i + 1]; ++atom)
      words_[atom / 64 - first] |= uint64_t{1} << (atom % 64);
  std::vector<uint32_t> encoded{first};
  for (uint64_t word : words_) {
    encoded.push_back(static_cast<uint32_t>(word));
    encoded.push_back(static_cast<uint32_t>(word >> 32));
  }
  return intern(encoded, true);
}

AtomSets::Id AtomSets::intern(std::span<const uint32_t> words, bool bitmap) {
  const uint64_t hash = hash_words(words, bitmap);
  for (size_t at = hash & (table_.size() - 1);; at = (at + 1) & (table_.size() - 1)) {
    if (table_[at] == 0) {
      table_[at] = static_cast<uint32_t>(entries_.size()) + 1;
      entries_.push_back({pool_.size(), static_cast<uint32_t>(words.size()), bitmap, hash});
      pool_.insert(pool_.end(), words.begin(), words.end());
      const Id id = static_cast<Id>(entries_.size() - 1);
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

AtomSets::Id AtomSets::disjoint_union(Id a, Id b) {
  if (a == kGarbage || b == kGarbage) return kGarbage;
  if (a == kDoubleCounted || b == kDoubleCounted || a == b) return kDoubleCounted;
  const Entry ea = entries_[a], eb = entries_[b];
  return ea.bitmap || eb.bitmap ? merge_bitmaps(ea, eb) : merge_runs(ea, eb);
}

AtomSets::Id AtomSets::merge_runs(const Entry& a, const Entry& b) {
  const auto x = payload(a), y = payload(b);
  merged_.clear();
  size_t i = 0, j = 0;
  while (i < x.size() || j < y.size()) {
    const bool from_x = j == y.size() || (i < x.size() && x[i] < y[j]);
    const auto& source = from_x ? x : y;
    size_t& at = from_x ? i : j;
    if (!merged_.empty() && source[at] < merged_.back()) return kDoubleCounted;
    push_run(merged_, source[at], source[at + 1]);
    at += 2;
  }
  return intern_canonical(merged_);
}

AtomSets::Id AtomSets::merge_bitmaps(const Entry& a, const Entry& b) {
  runs_a_.clear();
  runs_b_.clear();
  append_runs(a, payload(a), runs_a_);
  append_runs(b, payload(b), runs_b_);
  const uint32_t first = std::min(runs_a_.front(), runs_b_.front()) / 64;
  const uint32_t last = (std::max(runs_a_.back(), runs_b_.back()) - 1) / 64;
  if (last - first > 16 * (runs_a_.size() + runs_b_.size())) {  // far apart: stay with runs
    std::vector<std::pair<uint32_t, uint32_t>> all;
    for (const auto* runs : {&runs_a_, &runs_b_})
      for (size_t i = 0; i < runs->size(); i += 2) all.emplace_back((*runs)[i], (*runs)[i + 1]);
    std::ranges::sort(all);
    merged_.clear();
    for (auto [lo, hi] : all) {
      if (!merged_.empty() && lo < merged_.back()) return kDoubleCounted;
      push_run(merged_, lo, hi);
    }
    return intern_canonical(merged_);
  }
  words_.assign(last - first + 1, 0);
  for (const auto* runs : {&runs_a_, &runs_b_}) {
    for (size_t i = 0; i < runs->size(); i += 2) {
      for (uint32_t atom = (*runs)[i]; atom < (*runs)[i + 1]; ++atom) {
        uint64_t& word = words_[atom / 64 - first];
        const uint64_t bit = uint64_t{1} << (atom % 64);
        if (word & bit) return kDoubleCounted;
        word |= bit;
      }
    }
  }
  merged_.clear();
  for (uint32_t w = 0; w < words_.size(); ++w)
    for (uint64_t word = words_[w]; word != 0; word &= word - 1) {
      const uint32_t atom = (first + w) * 64 + static_cast<uint32_t>(std::countr_zero(word));
      push_run(merged_, atom, atom + 1);
    }
  return intern_canonical(merged_);
}

void AtomSets::append_runs(const Entry& e, std::span<const uint32_t> words, std::vector<uint32_t>& out) {
  if (!e.bitmap) {
    out.insert(out.end(), words.begin(), words.end());
    return;
  }
  for (size_t i = 1; i + 1 < words.size(); i += 2) {
    uint64_t word = words[i] | uint64_t{words[i + 1]} << 32;
    const uint32_t base = (words[0] + static_cast<uint32_t>((i - 1) / 2)) * 64;
    for (; word != 0; word &= word - 1) {
      const uint32_t atom = base + static_cast<uint32_t>(std::countr_zero(word));
      push_run(out, atom, atom + 1);
    }
  }
}

std::vector<uint32_t> AtomSets::atoms(Id id) const {
  std::vector<uint32_t> runs, result;
  append_runs(entries_[id], payload(entries_[id]), runs);
  for (size_t i = 0; i < runs.size(); i += 2)
    for (uint32_t atom = runs[i]; atom < runs[i + 1]; ++atom) result.push_back(atom);
  return result;
}

Values::Values() : table_(1024, 0) { nodes_.push_back({0, 0, AtomSets::kGarbage}); }

// Node 0 is garbage, so an atom is stored as (atom, 0) and a sum as (smaller + 1, larger + 1): the garbage
// operand of a sum is 1 there and never mistaken for "no operand".
Values::Id Values::atom(uint32_t atom) { return intern(atom, 0); }

Values::Id Values::add(Id a, Id b) { return intern(std::min(a, b) + 1, std::max(a, b) + 1); }

Values::Id Values::intern(uint32_t lhs, uint32_t rhs) {
  const uint64_t hash = mix(uint64_t{lhs} << 32 | rhs);
  for (size_t at = hash & (table_.size() - 1);; at = (at + 1) & (table_.size() - 1)) {
    if (table_[at] == 0) {
      const Id id = static_cast<Id>(nodes_.size());
      table_[at] = id;
      const AtomSets::Id set = rhs == 0 ? sets_.of_atom(lhs)
                                        : sets_.disjoint_union(nodes_[lhs - 1].set, nodes_[rhs - 1].set);
      nodes_.push_back({lhs, rhs, set});
      if (nodes_.size() * 2 > table_.size()) grow();
      return id;
    }
    const Node& known = nodes_[table_[at]];
    if (known.lhs == lhs && known.rhs == rhs) return table_[at];
  }
}

void Values::grow() {
  table_.assign(table_.size() * 2, 0);
  for (size_t id = 1; id < nodes_.size(); ++id) {
    size_t at = mix(uint64_t{nodes_[id].lhs} << 32 | nodes_[id].rhs) & (table_.size() - 1);
    while (table_[at] != 0) at = (at + 1) & (table_.size() - 1);
    table_[at] = static_cast<uint32_t>(id);
  }
}

bool Values::has_garbage(Id value) const { return nodes_[value].set == AtomSets::kGarbage; }

// Multiplicities flow from the expression down to its atoms. Operands have smaller numbers than sums, so
// one sweep from high to low visits every node after all its users; a count stops at 2^20, enough to say
// "twice" without overflow on an expression that doubles itself.
std::vector<uint32_t> Values::contributions(Id value) const {
  std::vector<uint32_t> times(value + 1, 0), result;
  times[value] = 1;
  constexpr uint32_t kMany = 1 << 20;
  for (Id id = value; id > 0; --id) {
    if (times[id] == 0) continue;
    const Node& node = nodes_[id];
    if (node.rhs == 0) {
      for (uint32_t i = 0; i < std::min(times[id], uint32_t{4}); ++i) result.push_back(node.lhs);
      continue;
    }
    for (uint32_t operand : {node.lhs - 1, node.rhs - 1})
      times[operand] = std::min(kMany, times[operand] + times[id]);
  }
  std::ranges::sort(result);
  return result;
}

}  // namespace hemiola
