#include "passes/passes.h"

namespace hemiola {

std::vector<Instruction> lower(Operations operations) {
  std::vector<Instruction> rows;
  rows.reserve(2 * operations.size());
  for (uint32_t i = 0; i < operations.size(); ++i) {
    const Operation& op = operations[i];
    const bool reduce = static_cast<Kind>(op.kind) == Kind::reduce;
    const bool remote = op.src_rank != op.dst_rank;
    const auto src_buffer = static_cast<uint8_t>(op.src_buffer), dst_buffer = static_cast<uint8_t>(op.dst_buffer);
    if (!remote) {
      const int32_t block = op.send_threadblock != kAutomatic ? op.send_threadblock : op.recv_threadblock;
      rows.push_back({reduce ? Opcode::re : Opcode::cpy, src_buffer, dst_buffer, 0, op.dst_rank, op.src_index,
                      op.dst_index, op.count, i, kNone, kNoPeer, kNoPeer, op.channel, block, op.instance, op.line});
      continue;
    }
    rows.push_back({Opcode::s, src_buffer, 0, 0, op.src_rank, op.src_index, 0, op.count, kNone, i,
                    static_cast<int32_t>(op.dst_rank), kNoPeer, op.channel, op.send_threadblock, op.instance, op.line});
    rows.push_back({reduce ? Opcode::rrc : Opcode::r, reduce ? dst_buffer : uint8_t{0}, dst_buffer, 0, op.dst_rank,
                    reduce ? op.dst_index : 0, op.dst_index, op.count, i, kNone, kNoPeer,
                    static_cast<int32_t>(op.src_rank), op.channel, op.recv_threadblock, op.instance, op.line});
  }
  return rows;
}

Instruction receiving_half(const Instruction& fused) {
  Instruction half = fused;
  half.opcode = fused.opcode == Opcode::rcs ? Opcode::r : Opcode::rrc;
  half.send_peer = kNoPeer;
  half.send_operation = kNone;
  return half;
}

Instruction sending_half(const Instruction& fused) {
  Instruction half = fused;
  half.opcode = Opcode::s;
  half.src_buffer = fused.dst_buffer;
  half.src_index = fused.dst_index;
  half.dst_buffer = 0;
  half.dst_index = 0;
  half.recv_peer = kNoPeer;
  half.recv_operation = kNone;
  return half;
}

}  // namespace hemiola
