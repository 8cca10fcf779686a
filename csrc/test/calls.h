// Calls of hand-written plans on numbers whose sums are exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/executor.h"
#include "test/check.h"
#include "test/group.h"
#include "test/plan_tables.h"

namespace hemiola::test {

using runtime::CallShape, runtime::Failure, runtime::Part, runtime::take_part;
using Numbers = std::vector<int64_t>;

inline std::byte* bytes(Numbers& numbers) { return reinterpret_cast<std::byte*>(numbers.data()); }

// Element k of a rank's input; sums over ranks are exact.
inline int64_t number_of(uint32_t rank, uint64_t k) {
  return static_cast<int64_t>((rank + 1) * 1'000'003 + k * (rank + 2));
}

inline Numbers input_of(uint32_t rank, uint64_t elements) {
  Numbers numbers(elements);
  for (uint64_t k = 0; k < elements; ++k) numbers[k] = number_of(rank, k);
  return numbers;
}

inline Numbers sum_of(uint32_t num_ranks, uint64_t elements) {
  Numbers numbers(elements, 0);
  for (uint32_t rank = 0; rank < num_ranks; ++rank)
    for (uint64_t k = 0; k < elements; ++k) numbers[k] += number_of(rank, k);
  return numbers;
}

inline Failure run_ring(Group& group, uint32_t rank, const Part& part, const CallShape& call, Numbers& data) {
  return group.executor(rank).run(part, call, bytes(data), bytes(data), nullptr);
}

inline std::vector<Part> parts_of(const Tables& tables, uint32_t block_chunks, int32_t alias = -1) {
  std::vector<Part> parts;
  for (uint32_t rank = 0; rank < tables.num_ranks(); ++rank)
    parts.push_back(take_part(tables.view(), {rank, block_chunks, alias, 0}));
  return parts;
}

inline std::vector<Part> ring_parts(uint32_t num_ranks, uint32_t count = 1, uint32_t instances = 1) {
  return parts_of(ring_all_reduce(num_ranks, count, instances), num_ranks * instances * count, kOutput);
}

// An all-reduce in place on every rank, checked.
inline void check_ring(Group& group, const std::vector<Part>& parts, uint64_t elements, uint64_t content = 1) {
  const Numbers expected = sum_of(group.num_ranks(), elements);
  on_all(group.num_ranks(), [&](uint32_t rank) {
    Numbers data = input_of(rank, elements);
    const Failure failure = run_ring(group, rank, parts[rank], call_of(elements, content), data);
    CHECK(!failure, failure.text);
    CHECK(data == expected, "rank ", rank, " of ", group.num_ranks(), ", ", elements, " elements");
  });
}

}  // namespace hemiola::test
