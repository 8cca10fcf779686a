#include "trace.h"

#include <algorithm>

#include "enforce.h"

namespace hemiola {
namespace {

constexpr int64_t kMaxScratch = int64_t{1} << 28;
constexpr size_t kMaxOperations = 0x7fffffff;

}  // namespace

Trace::Trace(std::span<const uint32_t> inputs, std::span<const uint32_t> outputs, uint32_t alias_source,
             uint32_t alias_target, std::span<const int32_t> alias_offset, std::span<const Holding> held)
    : ranks_(inputs.size(), Buffers(3)),
      inputs_(inputs.begin(), inputs.end()),
      outputs_(outputs.begin(), outputs.end()),
      alias_source_(alias_source),
      alias_target_(alias_target),
      alias_offset_(alias_offset.begin(), alias_offset.end()) {
  ENFORCE(outputs_.size() == inputs_.size() && alias_offset_.size() == inputs_.size());
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const bool aliased = alias_offset_[rank] >= 0;
    ranks_[rank][0].resize(aliased && alias_source_ == 0 ? 0 : inputs_[rank]);
    ranks_[rank][1].resize(aliased && alias_source_ == 1 ? 0 : outputs_[rank]);
  }
  for (const Holding& row : held) slots(row.rank, {row.buffer, row.index})->value = values_.atom(row.atom);
}

Trace::Place Trace::locate(uint32_t rank, uint32_t buffer, uint32_t index) const {
  if (buffer != alias_source_ || alias_offset_[rank] < 0) return {buffer, index};
  return {alias_target_, index + static_cast<uint32_t>(alias_offset_[rank])};
}

int64_t Trace::named_size(uint32_t rank, uint32_t buffer) const {
  if (buffer == 0) return inputs_[rank];
  if (buffer == 1) return outputs_[rank];
  return buffer < ranks_[rank].size() ? static_cast<int64_t>(ranks_[rank][buffer].size()) : 0;
}

int64_t Trace::size(int64_t rank, uint32_t buffer) const {
  return rank < 0 || rank >= static_cast<int64_t>(ranks_.size()) ? 0
                                                                 : named_size(static_cast<uint32_t>(rank), buffer);
}

int64_t Trace::fail(FaultKind kind, uint32_t rank, uint32_t buffer, int64_t index, const Slot* slot) {
  fault_ = {rank, buffer, index, rank < ranks_.size() ? named_size(rank, buffer) : 0, 0, 0};
  if (slot != nullptr && slot->written_at != 0) fault_.line = operations_[slot->written_at - 1].line;
  return static_cast<int64_t>(kind);
}

// Input and output have fixed sizes; a scratch buffer grows when it is written to.
int64_t Trace::check_range(int64_t rank, uint32_t buffer, int64_t index, int64_t count, bool may_grow) {
  if (rank < 0 || rank >= static_cast<int64_t>(ranks_.size())) return fail(FaultKind::rank, kNone, buffer, rank, nullptr);
  const auto r = static_cast<uint32_t>(rank);
  if (count < 1) return fail(FaultKind::count, r, buffer, index, nullptr);
  if (index < 0 || index > kMaxScratch || count > kMaxScratch) return fail(FaultKind::index, r, buffer, index, nullptr);
  if (index + count <= named_size(r, buffer)) return 0;
  if (buffer < kScratch) return fail(FaultKind::index, r, buffer, index, nullptr);
  if (!may_grow) {
    return fail(FaultKind::uninitialized, r, buffer, std::max(index, named_size(r, buffer)), nullptr);
  }
  if (index + count > kMaxScratch) return fail(FaultKind::index, r, buffer, index, nullptr);
  if (ranks_[r].size() <= buffer) ranks_[r].resize(buffer + 1);
  ranks_[r][buffer].resize(static_cast<size_t>(index + count));
  return 0;
}

int64_t Trace::check_slots(uint32_t rank, uint32_t buffer, uint32_t index, uint32_t count, uint32_t stamp) {
  const Slot* slot = slots(rank, locate(rank, buffer, index));
  for (uint32_t i = 0; i < count; ++i) {
    if (slot[i].written_at > stamp) return fail(FaultKind::stale, rank, buffer, index + i, slot + i);
    if (slot[i].value == Values::kGarbage) return fail(FaultKind::uninitialized, rank, buffer, index + i, nullptr);
  }
  return 0;
}

int64_t Trace::chunk(int64_t rank, uint32_t buffer, int64_t index, int64_t count) {
  if (const int64_t fault = check_range(rank, buffer, index, count, false); fault < 0) return fault;
  const auto stamp = static_cast<uint32_t>(operations_.size());
  const int64_t fault = check_slots(static_cast<uint32_t>(rank), buffer, static_cast<uint32_t>(index),
                                    static_cast<uint32_t>(count), stamp);
  return fault < 0 ? fault : stamp;
}

int64_t Trace::check_fresh(uint32_t rank, uint32_t buffer, uint32_t index, uint32_t count, uint32_t stamp) {
  return check_slots(rank, buffer, index, count, stamp);
}

int64_t Trace::record(Kind kind, uint32_t src_rank, uint32_t src_buffer, uint32_t src_index, uint32_t src_stamp,
                      int64_t dst_rank, uint32_t dst_buffer, int64_t dst_index, uint32_t dst_stamp,
                      uint32_t count, int32_t channel, int32_t send_threadblock, int32_t recv_threadblock,
                      uint32_t parallel, uint32_t line) {
  if (operations_.size() >= kMaxOperations) return fail(FaultKind::too_large, src_rank, src_buffer, src_index, nullptr);
  if (int64_t fault = check_slots(src_rank, src_buffer, src_index, count, src_stamp); fault < 0) return fault;
  if (int64_t fault = check_range(dst_rank, dst_buffer, dst_index, count, kind == Kind::copy); fault < 0) return fault;
  const auto to_rank = static_cast<uint32_t>(dst_rank), to_index = static_cast<uint32_t>(dst_index);
  if (kind == Kind::reduce) {
    if (int64_t fault = check_slots(to_rank, dst_buffer, to_index, count, dst_stamp); fault < 0) return fault;
  }
  const Place from = locate(src_rank, src_buffer, src_index), to = locate(to_rank, dst_buffer, to_index);
  const bool same_buffer = src_rank == to_rank && from.buffer == to.buffer;
  if (same_buffer && from.index != to.index && from.index < to.index + count && to.index < from.index + count)
    return fail(FaultKind::overlap, to_rank, dst_buffer, dst_index, nullptr);
  if (same_buffer && from.index == to.index && kind == Kind::copy) return static_cast<int64_t>(operations_.size());
  if (int64_t fault = write(kind, slots(to_rank, to), to_rank, dst_buffer, to_index, count, slots(src_rank, from));
      fault < 0)
    return fault;
  operations_.push_back({static_cast<uint16_t>(kind), static_cast<uint16_t>(from.buffer),
                         static_cast<uint16_t>(to.buffer), 0, src_rank, from.index, to_rank, to.index, count,
                         channel, send_threadblock, recv_threadblock, parallel, 0, line});
  return static_cast<int64_t>(operations_.size());
}

// All sums are formed before any is stored, so a refused operation changes nothing.
int64_t Trace::write(Kind kind, Slot* target, uint32_t rank, uint32_t buffer, uint32_t index, uint32_t count,
                     const Slot* source) {
  const auto now = static_cast<uint32_t>(operations_.size() + 1);
  moved_.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    moved_[i] = {kind == Kind::copy ? source[i].value : values_.add(target[i].value, source[i].value), now};
    if (values_.set_of(moved_[i].value) != AtomSets::kDoubleCounted) continue;
    const int64_t code = fail(FaultKind::double_count, rank, buffer, index + i, target + i);
    const auto atoms = values_.contributions(moved_[i].value);
    fault_.atom = *std::ranges::adjacent_find(atoms);
    return code;
  }
  std::copy(moved_.begin(), moved_.end(), target);
  return 0;
}

int64_t Trace::first_broken_promise(std::span<const Promise> promised, std::span<const uint32_t> set_first,
                                    std::span<const uint32_t> runs) {
  std::vector<AtomSets::Id> sets;
  for (size_t k = 0; k + 1 < set_first.size(); ++k)
    sets.push_back(values_.sets().of_runs(runs.subspan(2 * size_t{set_first[k]}, 2 * size_t{set_first[k + 1] - set_first[k]})));
  for (size_t row = 0; row < promised.size(); ++row) {
    const Promise& promise = promised[row];
    const Slot* slot = slots(promise.rank, {promise.buffer, promise.index});
    if (values_.set_of(slot->value) != sets[promise.set]) return static_cast<int64_t>(row);
  }
  return -1;
}

bool Trace::contributions(int64_t rank, uint32_t buffer, int64_t index, std::vector<uint32_t>& atoms) const {
  if (index < 0 || index >= size(rank, buffer)) return false;
  const auto r = static_cast<uint32_t>(rank);
  const Place place = locate(r, buffer, static_cast<uint32_t>(index));
  const Values::Id value = ranks_[r][place.buffer][place.index].value;
  if (value == Values::kGarbage) return false;
  atoms = values_.sets().atoms(values_.set_of(value));
  return true;
}

std::pair<std::vector<uint32_t>, std::vector<Operation>> Trace::finish() const {
  std::vector<uint32_t> totals;
  std::vector<std::vector<uint32_t>> base(ranks_.size());
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    uint32_t total = 0;
    for (size_t buffer = 0; buffer < ranks_[rank].size(); ++buffer) {
      base[rank].push_back(buffer < kScratch ? 0 : total);
      if (buffer >= kScratch) total += static_cast<uint32_t>(ranks_[rank][buffer].size());
    }
    totals.push_back(total);
  }
  std::vector<Operation> operations = operations_;
  for (Operation& op : operations) {
    op.src_index += base[op.src_rank][op.src_buffer];
    op.dst_index += base[op.dst_rank][op.dst_buffer];
    op.src_buffer = std::min<uint16_t>(op.src_buffer, kScratch);
    op.dst_buffer = std::min<uint16_t>(op.dst_buffer, kScratch);
  }
  return {std::move(totals), std::move(operations)};
}

}  // namespace hemiola
