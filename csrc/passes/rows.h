// The pieces of memory that a table of instructions works on, and what each row does to them.
#pragma once

#include "passes/passes.h"
#include "pieces.h"

namespace hemiola {

class RowPieces {
 public:
  // `kept` are further ranges, (first chunk, count) each, that are to be whole pieces.
  RowPieces(Instructions rows, const Layout& layout, std::span<const uint32_t> kept = {})
      : layout_(layout), pieces_(layout.size(), rows.size()) {
    for (const Instruction& row : rows) {
      if (row.opcode == Opcode::nop) continue;
      pieces_.cut(source_chunk(row), row.count);
      pieces_.cut(destination_chunk(row), row.count);
    }
    for (size_t i = 0; i + 1 < kept.size(); i += 2) pieces_.cut(kept[i], kept[i + 1]);
    pieces_.finish();
  }

  const Pieces& pieces() const { return pieces_; }
  uint32_t size() const { return pieces_.size(); }
  // A row that does not use its source or destination has zeros there; s has no destination, r no source.
  uint32_t source_chunk(const Instruction& row) const {
    return traits(row.opcode).reads_source ? layout_.at(row.rank, row.src_buffer, row.src_index)
                                           : destination_chunk(row);
  }
  uint32_t destination_chunk(const Instruction& row) const {
    const bool plain_send = row.opcode == Opcode::s;
    return plain_send ? layout_.at(row.rank, row.src_buffer, row.src_index)
                      : layout_.at(row.rank, row.dst_buffer, row.dst_index);
  }
  Range source(const Instruction& row) const { return pieces_.range(source_chunk(row), row.count); }
  Range destination(const Instruction& row) const { return pieces_.range(destination_chunk(row), row.count); }

 private:
  const Layout& layout_;
  Pieces pieces_;
};

}  // namespace hemiola
