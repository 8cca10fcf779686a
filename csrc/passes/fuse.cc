#include <algorithm>

#include "passes/rows.h"

namespace hemiola {
namespace {

class Fuser {
 public:
  Fuser(std::vector<Instruction>& rows, const RowPieces& memory, uint32_t slots)
      : rows_(rows),
        memory_(memory),
        slots_(slots),
        writer_(memory.size(), kNone),
        origin_(memory.size()),
        stored_(rows.size(), 0) {}

  // True when the row was taken into an earlier one.
  bool visit(uint32_t i) {
    Instruction& row = rows_[i];
    const OpcodeTraits& t = traits(row.opcode);
    if (row.opcode == Opcode::s && join(row)) return true;
    if (t.reads_source) keep(memory_.source(row));
    if (t.reads_destination) keep(memory_.destination(row));
    if (!t.writes_destination) return false;
    const Range dst = memory_.destination(row);
    for (uint32_t k = dst.first; k < dst.end; ++k) {
      const uint32_t offset = memory_.pieces().start(k) - memory_.destination_chunk(row);
      if (t.receives) {
        origin_[k] = {i, offset};
      } else {
        origin_[k] = row.opcode == Opcode::cpy
                         ? copied_origin(memory_.source_chunk(row) + offset, memory_.pieces().length(k))
                         : Origin{};
      }
      writer_[k] = i;
    }
    return false;
  }

  void keep(Range range) {
    for (uint32_t k = range.first; k < range.end; ++k)
      if (writer_[k] != kNone) stored_[writer_[k]] = 1;
  }

  uint32_t left_apart() const { return left_apart_; }
  bool is_stored(uint32_t i) const { return stored_[i] != 0; }

 private:
  struct Origin {
    uint32_t row = kNone, offset = 0;
  };

  // Where `length` chunks come from when they are copied; unknown when they are parts of several pieces.
  Origin copied_origin(uint32_t chunk, uint32_t length) const {
    const uint32_t piece = memory_.pieces().of(chunk);
    const uint32_t inside = chunk - memory_.pieces().start(piece);
    if (origin_[piece].row == kNone || inside + length > memory_.pieces().length(piece)) return {};
    return {origin_[piece].row, origin_[piece].offset + inside};
  }

  // The receive that brought exactly these chunks, wherever they lie by now, sends them on; it must still
  // have them where it stored them, so that the two can be split again. A message of more chunks than there
  // are slots needs its receiver at the same time, and a threadblock that sent while it received would
  // make all those of a ring wait for one another; so such a message is not fused.
  bool join(const Instruction& send) {
    const Range src = memory_.source(send);
    const uint32_t from = origin_[src.first].row;
    if (from == kNone) return false;
    Instruction& receive = rows_[from];
    if (receive.count != send.count || is_fused(receive) || receive.channel != send.channel ||
        receive.instance != send.instance || receive.threadblock != send.threadblock)
      return false;
    for (uint32_t k = src.first; k < src.end; ++k) {
      const uint32_t offset = memory_.pieces().start(k) - memory_.source_chunk(send);
      if (origin_[k].row != from || origin_[k].offset != offset) return false;
    }
    const Range stored = memory_.destination(receive);
    for (uint32_t k = stored.first; k < stored.end; ++k)
      if (writer_[k] != from) return false;
    if (send.count > slots_) {
      ++left_apart_;
      return false;
    }
    receive.opcode = receive.opcode == Opcode::r ? Opcode::rcs : Opcode::rrcs;
    receive.send_peer = send.send_peer;
    receive.send_operation = send.send_operation;
    return true;
  }

  std::vector<Instruction>& rows_;
  const RowPieces& memory_;
  uint32_t slots_, left_apart_ = 0;
  std::vector<uint32_t> writer_;
  std::vector<Origin> origin_;
  std::vector<uint8_t> stored_;
};

}  // namespace

Fused fuse(Instructions instructions, const Layout& layout, std::span<const uint32_t> kept, uint32_t slots) {
  std::vector<Instruction> rows(instructions.begin(), instructions.end());
  std::vector<uint8_t> gone(rows.size(), 0);
  const RowPieces memory(instructions, layout, kept);
  Fuser fuser(rows, memory, slots);
  for (uint32_t i = 0; i < rows.size(); ++i) gone[i] = fuser.visit(i);
  for (size_t i = 0; i + 1 < kept.size(); i += 2) fuser.keep(memory.pieces().range(kept[i], kept[i + 1]));
  size_t end = 0;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    if (rows[i].opcode == Opcode::rrcs && !fuser.is_stored(i)) rows[i].opcode = Opcode::rrs;
    if (!gone[i]) rows[end++] = rows[i];
  }
  rows.resize(end);
  return {std::move(rows), fuser.left_apart()};
}

}  // namespace hemiola
