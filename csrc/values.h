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
#include <span>
#include <utility>
#include <vector>

namespace hemiola {

// Sets of atoms, interned; the atom (rank, delta) is the number delta * num_ranks + rank. A set is stored as
// runs [lo, hi) or, where that is smaller, as a bitmap, so that neither rings (few runs, many sets) nor
// permuted orders (many runs) take much memory.
class AtomSets {
 public:
  using Id = uint32_t;
  static constexpr Id kGarbage = 0;        // includes something that was never written
  static constexpr Id kDoubleCounted = 1;  // adds a contribution twice

  AtomSets();
  // `runs` are half-open, sorted and disjoint.
  Id of_runs(std::span<const uint64_t> runs);
  // The union of `a` and of `b` with `shift_a` and `shift_b` added to every atom, or kDoubleCounted when they
  // overlap. Neither is garbage.
  Id disjoint_union(Id a, uint64_t shift_a, Id b, uint64_t shift_b);

 private:
  struct Entry {
    uint64_t first;   // in pool_
    uint32_t length;  // words of pool_
    uint32_t bitmap;  // 0: runs; 1: the number of the first 64 atoms, then 64 atoms a word
    uint64_t hash;
  };
  Id intern(std::span<const uint64_t> payload, bool bitmap);
  Id intern_canonical(std::span<const uint64_t> runs);
  void unpack(Id id, uint64_t shift, std::vector<uint64_t>& runs) const;
  std::span<const uint64_t> payload(const Entry& e) const { return {pool_.data() + e.first, e.length}; }
  void grow();

  std::vector<uint64_t> pool_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> table_;  // open addressing: entry + 1, or 0
  std::vector<uint64_t> runs_a_, runs_b_, merged_, words_;
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
  AtomSets::Id set_of(Value value) const { return nodes_[value.expression].set; }
  AtomSets& sets() { return sets_; }
  // (rank, input chunk) of every contribution, with multiplicity, sorted. For messages: it walks the expression.
  std::vector<std::pair<uint32_t, uint32_t>> contributions(Value value) const;

 private:
  struct Node {
    uint32_t lhs, rhs;  // rhs == 0: an input of rank lhs
    int32_t shift;      // of rhs against lhs
    AtomSets::Id set;
  };
  uint32_t intern(uint32_t lhs, uint32_t rhs, int32_t shift);
  void grow();

  uint32_t num_ranks_;
  AtomSets sets_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> table_;
};

}  // namespace hemiola
