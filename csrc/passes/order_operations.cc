#include <algorithm>

#include "passes/passes.h"
#include "pieces.h"

namespace hemiola {

// Depth of an operation: one more than the deepest of those that it conflicts with and that stand before
// it. Every conflict points to a greater depth, so sorting by depth keeps the program's meaning; within a
// depth the program's own order stays. Without this, a ring written chunk by chunk would be run chunk by chunk.
std::vector<Operation> order_operations(Operations operations, const Layout& layout) {
  Pieces pieces(layout.size(), operations.size());
  for (const Operation& op : operations) {
    pieces.cut(layout.at(op.src_rank, op.src_buffer, op.src_index), op.count);
    pieces.cut(layout.at(op.dst_rank, op.dst_buffer, op.dst_index), op.count);
  }
  pieces.finish();
  std::vector<uint32_t> written(pieces.size(), 0), read(pieces.size(), 0), depth(operations.size());
  uint32_t deepest = 0;
  for (size_t i = 0; i < operations.size(); ++i) {
    const Operation& op = operations[i];
    const Range src = pieces.range(layout.at(op.src_rank, op.src_buffer, op.src_index), op.count);
    const Range dst = pieces.range(layout.at(op.dst_rank, op.dst_buffer, op.dst_index), op.count);
    uint32_t before = 0;
    for (uint32_t k = src.first; k < src.end; ++k) before = std::max(before, written[k]);
    for (uint32_t k = dst.first; k < dst.end; ++k) before = std::max({before, written[k], read[k]});
    depth[i] = before + 1;
    for (uint32_t k = src.first; k < src.end; ++k) read[k] = std::max(read[k], depth[i]);
    for (uint32_t k = dst.first; k < dst.end; ++k) written[k] = depth[i], read[k] = 0;
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
