#include "proof/promises.h"

#include <unordered_map>

namespace hemiola {

Memory start(const Meaning& meaning, const Layout& layout) {
  Memory memory;
  memory.chunks.assign(layout.size(), Values::kGarbage);
  for (const Holding& row : meaning.held)
    memory.chunks[layout.at(row.rank, row.buffer, row.index)] = memory.values.atom(row.atom);
  return memory;
}

Fulfilment check_promises(Memory& memory, const Meaning& meaning, const Layout& layout, size_t limit) {
  Fulfilment result;
  std::vector<AtomSets::Id> sets;
  for (size_t k = 0; k + 1 < meaning.set_first.size(); ++k) {
    const size_t first = meaning.set_first[k], end = meaning.set_first[k + 1];
    sets.push_back(memory.values.sets().of_runs(meaning.runs.subspan(2 * first, 2 * (end - first))));
  }
  std::vector<Values::Id> expression(sets.size(), Values::kGarbage);
  for (uint32_t row = 0; row < meaning.promised.size(); ++row) {
    const Promise& promise = meaning.promised[row];
    const Values::Id value = memory.chunks[layout.at(promise.rank, promise.buffer, promise.index)];
    if (memory.values.set_of(value) != sets[promise.set]) {
      if (result.broken.size() < limit)
        result.broken.push_back({row, memory.values.has_garbage(value), memory.values.contributions(value)});
      continue;
    }
    Values::Id& first = expression[promise.set];
    if (first == Values::kGarbage) first = value;
    result.same_expression = result.same_expression && first == value;
  }
  return result;
}

SequentialRun run_operations(std::span<const Operation> rows, const Meaning& meaning, const Layout& layout) {
  SequentialRun run{kNone, start(meaning, layout)};
  auto& [values, chunks] = run.memory;
  for (const Operation& op : rows) {
    const uint32_t src = layout.at(op.src_rank, op.src_buffer, op.src_index);
    const uint32_t dst = layout.at(op.dst_rank, op.dst_buffer, op.dst_index);
    const bool reduce = static_cast<Kind>(op.kind) == Kind::reduce;
    for (uint32_t k = 0; k < op.count; ++k)
      chunks[dst + k] = reduce ? values.add(chunks[dst + k], chunks[src + k]) : chunks[src + k];
  }
  return run;
}

SequentialRun run_instructions(std::span<const Instruction> rows, uint32_t num_operations, const Meaning& meaning,
                               const Layout& layout) {
  SequentialRun run{kNone, start(meaning, layout)};
  auto& [values, chunks] = run.memory;
  std::unordered_map<uint32_t, std::vector<Values::Id>> messages;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const Instruction& row = rows[i];
    const OpcodeTraits& t = traits(row.opcode);
    std::vector<Values::Id> moved(row.count, Values::kGarbage);
    const uint32_t src = layout.at(row.rank, row.src_buffer, row.src_index);
    const uint32_t dst = layout.at(row.rank, row.dst_buffer, row.dst_index);
    if (t.receives) {
      const auto message = messages.find(row.recv_operation);
      if (row.recv_operation >= num_operations || message == messages.end() || message->second.size() != row.count) {
        run.stuck = i;
        return run;
      }
      moved = std::move(message->second);
      messages.erase(message);
    }
    for (uint32_t k = 0; k < row.count; ++k) {
      if (t.reads_source) moved[k] = t.receives ? values.add(moved[k], chunks[src + k]) : chunks[src + k];
      if (t.reads_destination) moved[k] = values.add(chunks[dst + k], moved[k]);
    }
    if (t.writes_destination) std::copy(moved.begin(), moved.end(), chunks.begin() + dst);
    if (t.sends) messages[row.send_operation] = std::move(moved);
  }
  return run;
}

Proof prove(const PlanView& plan, const Meaning& meaning, uint32_t slots, size_t limit) {
  Proof proof;
  proof.overlaps = find_overlaps(plan, limit);
  const Connections connections = connect(plan);
  proof.connection_faults = connections.faults;
  if (!proof.overlaps.empty() || !proof.connection_faults.empty()) return proof;
  {
    Memory memory = start(meaning, *plan.layout);
    const RunResult free = run(plan, connections, kUnlimited, false, &memory);
    proof.stuck = free.cycle;
    if (!free.ended) return proof;
    proof.fulfilment = check_promises(memory, meaning, *plan.layout, limit);
    memory = {};
    proof.races = find_races(plan, connections, free.order, limit);
  }
  proof.stuck_by_step = run(plan, connections, slots, false, nullptr).cycle;
  for (const Step& step : plan.steps) {
    if (step.count <= 1) continue;
    proof.stuck_by_chunk = run(plan, connections, slots, true, nullptr).cycle;
    break;
  }
  return proof;
}

}  // namespace hemiola
