// Values: what a chunk can hold, symbolically. A value is an expression, a contribution or a sum of two
// values, interned so that equal expressions have one number (a + b and b + a are equal, as they are in
// floating point). Every value knows the set of contributions ("atoms") that it adds up.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hemiola {

// Sets of atoms, interned. A set is stored as runs [lo, hi) or, where it has many, as a bitmap, so that
// neither rings (few runs, many sets) nor permuted orders (many runs) take much memory.
class AtomSets {
 public:
  using Id = uint32_t;
  static constexpr Id kGarbage = 0;        // includes something that was never written
  static constexpr Id kDoubleCounted = 1;  // adds a contribution twice

  AtomSets();
  Id of_atom(uint32_t atom);
  // `runs` are half-open, sorted, and do not touch or overlap after merging neighbours.
  Id of_runs(std::span<const uint32_t> runs);
  // The union, or kDoubleCounted when they overlap, or kGarbage when either is garbage.
  Id disjoint_union(Id a, Id b);
  std::vector<uint32_t> atoms(Id id) const;

 private:
  struct Entry {
    uint64_t first;   // in pool_
    uint32_t length;  // words of pool_
    uint32_t bitmap;  // 0: runs; 1: first 64-atom word, then the words, two u32 each
    uint64_t hash;
  };
  Id intern(std::span<const uint32_t> payload, bool bitmap);
  Id intern_canonical(std::span<const uint32_t> runs);
  Id merge_runs(const Entry& a, const Entry& b);
  Id merge_bitmaps(const Entry& a, const Entry& b);
  std::span<const uint32_t> payload(const Entry& e) const { return {pool_.data() + e.first, e.length}; }
  static void append_runs(const Entry& e, std::span<const uint32_t> payload, std::vector<uint32_t>& out);
  void grow();

  std::vector<uint32_t> pool_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> table_;  // open addressing: entry + 1, or 0
  std::vector<uint32_t> runs_a_, runs_b_, merged_;
  std::vector<uint64_t> words_;
};

class Values {
 public:
  using Id = uint32_t;
  static constexpr Id kGarbage = 0;

  Values();
  Id atom(uint32_t atom);
  Id add(Id a, Id b);
  AtomSets::Id set_of(Id value) const { return nodes_[value].set; }
  AtomSets& sets() { return sets_; }
  const AtomSets& sets() const { return sets_; }
  // Atoms with multiplicity, sorted; for messages only, it walks the whole expression.
  std::vector<uint32_t> contributions(Id value) const;
  bool has_garbage(Id value) const;

 private:
  struct Node {
    uint32_t lhs, rhs;  // rhs == 0: the atom lhs
    AtomSets::Id set;
  };
  Id intern(uint32_t lhs, uint32_t rhs);
  void grow();

  AtomSets sets_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> table_;
};

}  // namespace hemiola
