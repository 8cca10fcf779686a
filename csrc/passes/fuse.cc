#include <algorithm>

#include "passes/passes.h"

namespace hemiola {
namespace {

class Fuser {
 public:
  Fuser(std::vector<Instruction>& rows, const Layout& layout, uint32_t slots)
      : rows_(rows), layout_(layout), slots_(slots), writer_(layout.size(), kNone), origin_(layout.size()), stored_(rows.size(), 0) {}

  // True when the row was taken into an earlier one.
  bool visit(uint32_t i) {
    Instruction& row = rows_[i];
    const OpcodeTraits& t = traits(row.opcode);
    const uint32_t src = layout_.at(row.rank, row.src_buffer, row.src_index);
    const uint32_t dst = layout_.at(row.rank, row.dst_buffer, row.dst_index);
    if (row.opcode == Opcode::s && join(row, src)) return true;
    for (uint32_t k = 0; k < row.count; ++k) {
      if (t.reads_source) keep(src + k);
      if (t.reads_destination) keep(dst + k);
    }
    if (!t.writes_destination) return false;
    for (uint32_t k = 0; k < row.count; ++k) {
      if (t.receives) {
        origin_[dst + k] = {i, k};
      } else {
        origin_[dst + k] = row.opcode == Opcode::cpy ? origin_[src + k] : Origin{};
      }
      writer_[dst + k] = i;
    }
    return false;
  }

  void keep(uint32_t chunk) {
    if (writer_[chunk] != kNone) stored_[writer_[chunk]] = 1;
  }

  bool is_stored(uint32_t i) const { return stored_[i] != 0; }

 private:
  struct Origin {
    uint32_t row = kNone, offset = 0;
  };

  // The receive that brought exactly these chunks, wherever they lie by now, sends them on; it must still
  // have them where it stored them, so that the two can be split again. A message of more chunks than there
  // are slots needs its receiver at the same time, and a threadblock that sent while it received would
  // make all those of a ring wait for one another; so such a message is not fused.
  bool join(const Instruction& send, uint32_t src) {
    const uint32_t from = origin_[src].row;
    if (from == kNone) return false;
    Instruction& receive = rows_[from];
    if (send.count > slots_ || receive.count != send.count || is_fused(receive) || receive.channel != send.channel ||
        receive.instance != send.instance || receive.threadblock != send.threadblock)
      return false;
    const uint32_t stored_at = layout_.at(receive.rank, receive.dst_buffer, receive.dst_index);
    for (uint32_t k = 0; k < send.count; ++k)
      if (origin_[src + k].row != from || origin_[src + k].offset != k || writer_[stored_at + k] != from) return false;
    receive.opcode = receive.opcode == Opcode::r ? Opcode::rcs : Opcode::rrcs;
    receive.send_peer = send.send_peer;
    receive.send_operation = send.send_operation;
    return true;
  }

  std::vector<Instruction>& rows_;
  const Layout& layout_;
  uint32_t slots_;
  std::vector<uint32_t> writer_;
  std::vector<Origin> origin_;
  std::vector<uint8_t> stored_;
};

}  // namespace

std::vector<Instruction> fuse(Instructions instructions, const Layout& layout, std::span<const uint32_t> kept,
                              uint32_t slots) {
  std::vector<Instruction> rows(instructions.begin(), instructions.end());
  std::vector<uint8_t> gone(rows.size(), 0);
  Fuser fuser(rows, layout, slots);
  for (uint32_t i = 0; i < rows.size(); ++i) gone[i] = fuser.visit(i);
  for (uint32_t chunk : kept) fuser.keep(chunk);
  size_t end = 0;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    if (rows[i].opcode == Opcode::rrcs && !fuser.is_stored(i)) rows[i].opcode = Opcode::rrs;
    if (!gone[i]) rows[end++] = rows[i];
  }
  rows.resize(end);
  return rows;
}

}  // namespace hemiola
