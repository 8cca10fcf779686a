#include <algorithm>
#include <bit>

#include "values.h"

namespace hemiola {
namespace {

uint64_t mix(uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ULL;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ULL;
  return x ^ (x >> 32);
}

}  // namespace

AtomSets::AtomSets() : nodes_(2, Node{0, 0}), table_(1024, 0) {}

uint64_t AtomSets::first_word(Id id) const {
  if (!is_branch(id)) return nodes_[id].place;
  return (nodes_[id].place & ((uint64_t{1} << 56) - 1)) << level(id);
}

AtomSets::Id AtomSets::branch(uint32_t level, uint64_t first_word, Id left, Id right) {
  return intern({kBranch | uint64_t{level} << 56 | first_word >> level, uint64_t{left} << 32 | right});
}

// Two nodes that cover different words, under the lowest branch that covers both.
AtomSets::Id AtomSets::join(Id a, Id b) {
  if (first_word(b) < first_word(a)) std::swap(a, b);
  const uint64_t difference = first_word(a) ^ first_word(b);
  const auto level = static_cast<uint32_t>(std::bit_width(difference));
  return branch(level, first_word(a) >> level << level, a, b);
}

AtomSets::Id AtomSets::merge(Id a, Id b) {
  if (a == b) return kDoubleCounted;
  if (level(a) < level(b)) std::swap(a, b);
  const uint32_t high = level(a);
  if (first_word(a) >> high != first_word(b) >> high) return join(a, b);
  if (high == 0) {
    const uint64_t both = nodes_[a].contents & nodes_[b].contents;
    return both != 0 ? kDoubleCounted : leaf(nodes_[a].place, nodes_[a].contents | nodes_[b].contents);
  }
  Id low = left(a), up = right(a);
  if (level(b) == high) {
    low = merge(low, left(b));
    up = low == kDoubleCounted ? low : merge(up, right(b));
  } else {
    Id& child = (first_word(b) >> (high - 1) & 1) != 0 ? up : low;
    child = merge(child, b);
  }
  return low == kDoubleCounted || up == kDoubleCounted ? kDoubleCounted : branch(high, first_word(a), low, up);
}

AtomSets::Id AtomSets::disjoint_union(Id a, Id b) {
  return a == kDoubleCounted || b == kDoubleCounted ? kDoubleCounted : merge(a, b);
}

AtomSets::Id AtomSets::of_runs(std::span<const uint64_t> runs) {
  Id set = kGarbage;
  for (size_t i = 0; i + 1 < runs.size(); i += 2) {
    for (uint64_t atom = runs[i]; atom < runs[i + 1];) {
      const uint64_t end = std::min(runs[i + 1], (atom / 64 + 1) * 64);
      const uint64_t bits = (~uint64_t{0} >> (64 - (end - atom))) << (atom % 64);
      const Id word = leaf(atom / 64, bits);
      set = set == kGarbage ? word : merge(set, word);
      atom = end;
    }
  }
  return set;
}

AtomSets::Id AtomSets::shifted(Id set, int64_t by) {
  if (set <= kDoubleCounted || by == 0) return set;
  std::vector<uint64_t> runs;
  append_runs(set, runs);
  for (uint64_t& end : runs) end += static_cast<uint64_t>(by);
  return of_runs(runs);
}

uint64_t AtomSets::smallest(Id set) const {
  while (is_branch(set)) set = left(set);
  return nodes_[set].place * 64 + static_cast<uint64_t>(std::countr_zero(nodes_[set].contents));
}

void AtomSets::append_runs(Id set, std::vector<uint64_t>& runs) const {
  if (is_branch(set)) {
    append_runs(left(set), runs);
    append_runs(right(set), runs);
    return;
  }
  for (uint64_t bits = nodes_[set].contents; bits != 0;) {
    const auto lo = static_cast<uint32_t>(std::countr_zero(bits));
    const auto length = static_cast<uint32_t>(std::countr_one(bits >> lo));
    const uint64_t begin = nodes_[set].place * 64 + lo;
    if (!runs.empty() && runs.back() == begin) {
      runs.back() += length;
    } else {
      runs.push_back(begin);
      runs.push_back(begin + length);
    }
    bits = lo + length >= 64 ? 0 : bits >> (lo + length) << (lo + length);
  }
}

AtomSets::Id AtomSets::intern(Node node) {
  const uint64_t hash = mix(node.place ^ mix(node.contents));
  for (size_t at = hash & (table_.size() - 1);; at = (at + 1) & (table_.size() - 1)) {
    if (table_[at] == 0) {
      const auto id = static_cast<Id>(nodes_.size());
      table_[at] = id;
      nodes_.push_back(node);
      if (nodes_.size() * 2 > table_.size()) grow();
      return id;
    }
    const Node& known = nodes_[table_[at]];
    if (known.place == node.place && known.contents == node.contents) return table_[at];
  }
}

void AtomSets::grow() {
  table_.assign(table_.size() * 2, 0);
  for (size_t id = 2; id < nodes_.size(); ++id) {
    size_t at = mix(nodes_[id].place ^ mix(nodes_[id].contents)) & (table_.size() - 1);
    while (table_[at] != 0) at = (at + 1) & (table_.size() - 1);
    table_[at] = static_cast<uint32_t>(id);
  }
}

}  // namespace hemiola
