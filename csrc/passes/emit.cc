#include "passes/passes.h"

namespace hemiola {
namespace {

// Fields that the opcode does not use are zero.
Step step_of(const Instruction& row, uint32_t first_dependency) {
  const OpcodeTraits& t = traits(row.opcode);
  Step step{row.opcode, 0, 0, 0, 0, 0, row.count, first_dependency, row.line};
  if (t.reads_source) step.src_buffer = row.src_buffer, step.src_index = row.src_index;
  if (t.writes_destination) step.dst_buffer = row.dst_buffer, step.dst_index = row.dst_index;
  return step;
}

}  // namespace

PlanTables emit(Instructions instructions, uint32_t num_ranks, std::span<const uint32_t> first,
                std::span<const uint32_t> on) {
  PlanTables plan;
  std::vector<uint32_t> blocks(num_ranks, 0);
  for (const Instruction& row : instructions)
    blocks[row.rank] = std::max(blocks[row.rank], static_cast<uint32_t>(row.threadblock) + 1);
  uint32_t total = 0;
  for (uint32_t rank = 0; rank < num_ranks; ++rank) {
    plan.first_threadblock.push_back(total);
    for (uint32_t b = 0; b < blocks[rank]; ++b) plan.threadblocks.push_back({rank, kNoPeer, kNoPeer, 0, 0});
    total += blocks[rank];
  }
  const auto block_of = [&](const Instruction& row) {
    return plan.first_threadblock[row.rank] + static_cast<uint32_t>(row.threadblock);
  };
  std::vector<uint32_t> next(total + 1, 0);
  for (const Instruction& row : instructions) {
    Threadblock& block = plan.threadblocks[block_of(row)];
    block.channel = static_cast<uint32_t>(row.channel);
    if (row.send_peer != kNoPeer) block.send_peer = row.send_peer;
    if (row.recv_peer != kNoPeer) block.recv_peer = row.recv_peer;
    ++next[block_of(row) + 1];
  }
  for (uint32_t b = 0; b < total; ++b) next[b + 1] += next[b];
  for (uint32_t b = 0; b < total; ++b) plan.threadblocks[b].first_step = next[b];
  std::vector<uint32_t> step_at(instructions.size()), row_at(instructions.size());
  for (uint32_t i = 0; i < instructions.size(); ++i) {
    step_at[i] = next[block_of(instructions[i])]++;
    row_at[step_at[i]] = i;
  }
  plan.steps.reserve(instructions.size());
  for (uint32_t i : row_at) {
    plan.steps.push_back(step_of(instructions[i], static_cast<uint32_t>(plan.dependencies.size())));
    for (uint32_t k = first[i]; k < first[i + 1]; ++k) {
      const Instruction& other = instructions[on[k]];
      plan.dependencies.push_back(
          {static_cast<uint32_t>(other.threadblock), step_at[on[k]] - plan.threadblocks[block_of(other)].first_step});
    }
  }
  return plan;
}

}  // namespace hemiola
