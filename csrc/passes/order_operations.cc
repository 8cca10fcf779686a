#include <algorithm>

#include "passes/passes.h"

namespace hemiola {

// Depth of an operation: one more than the deepest of those that it conflicts with and that stand before
// it. Every conflict points to a greater depth, so sorting by depth keeps the program's meaning; within a
// depth the program's own order stays. Without this, a ring written chunk by chunk would be run chunk by chunk.
std::vector<Operation> order_operations(Operations operations, const Layout& layout) {
  std::vector<uint32_t> written(layout.size(), 0), read(layout.size(), 0), depth(operations.size());
  uint32_t deepest = 0;
  for (size_t i = 0; i < operations.size(); ++i) {
    const Operation& op = operations[i];
    const uint32_t src = layout.at(op.src_rank, op.src_buffer, op.src_index);
    const uint32_t dst = layout.at(op.dst_rank, op.dst_buffer, op.dst_index);
    uint32_t before = 0;
    for (uint32_t k = 0; k < op.count; ++k)
      before = std::max({before, written[src + k], written[dst + k], read[dst + k]});
    depth[i] = before + 1;
    for (uint32_t k = 0; k < op.count; ++k) {
      read[src + k] = std::max(read[src + k], depth[i]);
      written[dst + k] = depth[i];
      read[dst + k] = 0;
    }
    deepest = std::max(deepest, depth[i]);
  }
  std::vector<size_t> first(deepest + 2, 0);
  for (uint32_t d : depth) ++first[d + 1];
  for (size_t d = 1; d < first.size(); ++d) first[d] += first[d - 1];
  std::vector<Operation> sorted(operations.size());
  for (size_t i = 0; i < operations.size(); ++i) sorted[first[depth[i]]++] = operations[i];
  return sorted;
}

}  // namespace hemiola
