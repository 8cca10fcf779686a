// Values: what chunks can hold, symbolically. A value is an expression, a contribution or a sum of two values,
// interned so that equal expressions have one number (a + b and b + a are equal, as they are in floating
// point). Every expression knows the set of contributions ("atoms") that it adds up.
//
// Expressions do not name input chunks but ranks: the value {expression, base} adds up input chunk base + delta
// of rank r for every atom (r, delta) of the expression. So neighbouring chunks that are treated alike hold
// the same expression with bases that count up, and a whole range of them is one segment of memory.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace hemiola {

// Sets of numbers, interned, as binary tries over words of 64: equal sets have equal numbers, sets share what
// they have in common, and a union costs no more than what the smaller one touches.
class AtomSets {
 public:
  using Id = uint32_t;
  static constexpr Id kGarbage = 0;        // includes something that was never written
  static constexpr Id kDoubleCounted = 1;  // adds a contribution twice

  AtomSets();
  // `runs` are half-open and disjoint; without any the result is kGarbage.
  Id of_runs(std::span<const uint64_t> runs);
  // The union, or kDoubleCounted when they overlap.
  Id disjoint_union(Id a, Id b);
  Id shifted(Id set, int64_t by);
  uint64_t smallest(Id set) const;

 private:
  // A leaf is a word of 64 numbers; a branch divides a range of words by one bit of their index.
  struct Node {
    uint64_t place;     // leaf: the word's index; branch: kBranch | level << 56 | prefix
    uint64_t contents;  // leaf: the bits; branch: left << 32 | right
  };
  static constexpr uint64_t kBranch = uint64_t{1} << 63;

  bool is_branch(Id id) const { return (nodes_[id].place & kBranch) != 0; }
  // A node of level n covers 2^n words from `first_word` on.
  uint32_t level(Id id) const { return is_branch(id) ? static_cast<uint32_t>(nodes_[id].place >> 56 & 63) : 0; }
  uint64_t first_word(Id id) const;
  Id left(Id id) const { return static_cast<Id>(nodes_[id].contents >> 32); }
  Id right(Id id) const { return static_cast<Id>(nodes_[id].contents); }
  Id leaf(uint64_t word, uint64_t bits) { return intern({word, bits}); }
  Id branch(uint32_t level, uint64_t first_word, Id left, Id right);
  Id join(Id a, Id b);
  Id merge(Id a, Id b);
  Id intern(Node node);
  void grow();
  void append_runs(Id set, std::vector<uint64_t>& runs) const;

  std::vector<Node> nodes_;
  std::vector<uint32_t> table_;  // open addressing, 0 for free
};

struct Value {
  uint32_t expression = 0;  // 0: garbage
  uint32_t base = 0;
  auto operator<=>(const Value&) const = default;
};

inline constexpr Value kGarbage{};

class Values {
 public:
  explicit Values(uint32_t num_ranks);
  Value input(uint32_t rank, uint32_t index) const { return {rank + 1, index}; }
  Value add(Value a, Value b);
  bool double_counts(Value value) const { return nodes_[value.expression].set == AtomSets::kDoubleCounted; }
  // (rank, input chunk) of every contribution, with multiplicity, sorted. For messages: it walks the expression.
  // Nothing when it is too long to be of use in one.
  std::optional<std::vector<std::pair<uint32_t, uint32_t>>> contributions(Value value) const;

  // A set with its smallest delta at 0, and the input chunk that this is.
  struct Sum {
    AtomSets::Id set;
    uint32_t base;
    bool operator==(const Sum&) const = default;
  };
  Sum sum_of(Value value);
  // The set of atoms delta * num_ranks + rank in `runs`, its smallest delta 0.
  AtomSets::Id promised(std::span<const uint64_t> runs);

 private:
  struct Node {
    uint32_t lhs, rhs;  // rhs == 0: an input of rank lhs
    int32_t shift;      // of lhs against rhs
    uint32_t size;      // contributions, up to 2^32 - 1
    AtomSets::Id set;
  };
  // Whether a sum has the base of its left operand.
  bool keeps_left_base(uint32_t lhs, uint32_t rhs) const { return nodes_[lhs].size > nodes_[rhs].size; }
  uint32_t intern(uint32_t lhs, uint32_t rhs, int32_t shift);
  void grow();

  uint32_t num_ranks_;
  AtomSets sets_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> table_;
  std::unordered_map<AtomSets::Id, AtomSets::Id> normal_;
};

}  // namespace hemiola
