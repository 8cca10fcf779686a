#include "trace.h"

#include <algorithm>
#include <tuple>

#include "enforce.h"

namespace hemiola {
namespace {

constexpr int64_t kMaxScratch = int64_t{1} << 28;
constexpr size_t kMaxOperations = 0x7fffffff;
constexpr size_t kNotYet = ~size_t{0};

}  // namespace

Trace::Trace(std::span<const uint32_t> inputs, std::span<const uint32_t> outputs, uint32_t alias_source,
             uint32_t alias_target, std::span<const int32_t> alias_offset, std::span<const Holding> held)
    : inputs_(inputs.begin(), inputs.end()),
      outputs_(outputs.begin(), outputs.end()),
      alias_source_(alias_source),
      alias_target_(alias_target),
      alias_offset_(alias_offset.begin(), alias_offset.end()),
      memory_(std::span<const uint32_t>{}),
      values_(static_cast<uint32_t>(inputs.size())) {
  ENFORCE(outputs_.size() == inputs_.size() && alias_offset_.size() == inputs_.size());
  for (size_t rank = 0; rank < inputs_.size(); ++rank) {
    uint32_t sizes[2] = {inputs_[rank], outputs_[rank]};
    if (alias_offset_[rank] >= 0) {
      const uint32_t end = static_cast<uint32_t>(alias_offset_[rank]) + sizes[alias_source_];
      sizes[alias_target_] = std::max(sizes[alias_target_], end);
      sizes[alias_source_] = 0;
    }
    numbers_.push_back({memory_.add_buffer(), memory_.add_buffer()});
    for (size_t buffer : {0, 1}) memory_.resize(numbers_[rank][buffer], sizes[buffer]);
  }
  for (const Holding& row : held)
    memory_.write(number(row.rank, row.buffer), row.index, {{row.count, values_.input(row.rank, row.input_index), 0}},
                  0);
}

Trace::Place Trace::locate(uint32_t rank, uint32_t buffer, uint32_t index) const {
  if (buffer != alias_source_ || alias_offset_[rank] < 0) return {buffer, index};
  return {alias_target_, index + static_cast<uint32_t>(alias_offset_[rank])};
}

int64_t Trace::named_size(uint32_t rank, uint32_t buffer) const {
  if (buffer == 0) return inputs_[rank];
  if (buffer == 1) return outputs_[rank];
  if (buffer >= numbers_[rank].size() || number(rank, buffer) == kNotYet) return 0;
  return memory_.size(number(rank, buffer));
}

int64_t Trace::size(int64_t rank, uint32_t buffer) const {
  const bool exists = rank >= 0 && rank < static_cast<int64_t>(numbers_.size());
  return exists ? named_size(static_cast<uint32_t>(rank), buffer) : 0;
}

int64_t Trace::fail(FaultKind kind, uint32_t rank, uint32_t buffer, int64_t index, uint32_t written_at) {
  fault_ = {};
  fault_.rank = rank;
  fault_.buffer = buffer;
  fault_.index = index;
  fault_.size = rank < numbers_.size() ? named_size(rank, buffer) : 0;
  fault_.line = written_at != 0 ? operations_[written_at - 1].line : 0;
  return static_cast<int64_t>(kind);
}

// Input and output have fixed sizes; a scratch buffer grows when it is written to.
int64_t Trace::check_range(int64_t rank, uint32_t buffer, int64_t index, int64_t count, bool may_grow) {
  if (rank < 0 || rank >= static_cast<int64_t>(numbers_.size())) return fail(FaultKind::rank, kNone, buffer, rank, 0);
  const auto r = static_cast<uint32_t>(rank);
  if (count < 1) return fail(FaultKind::count, r, buffer, index, 0);
  if (index < 0 || index > kMaxScratch || count > kMaxScratch) return fail(FaultKind::index, r, buffer, index, 0);
  const int64_t size = named_size(r, buffer);
  if (index + count <= size) return 0;
  if (buffer < kScratch) return fail(FaultKind::index, r, buffer, index, 0);
  if (!may_grow) return fail(FaultKind::uninitialized, r, buffer, std::max(index, size), 0);
  int64_t scratch = index + count - size;
  for (uint32_t other = kScratch; other < numbers_[r].size(); ++other) scratch += named_size(r, other);
  if (scratch > kMaxScratch) return fail(FaultKind::index, r, buffer, index, 0);
  if (numbers_[r].size() <= buffer) numbers_[r].resize(buffer + 1, kNotYet);
  if (number(r, buffer) == kNotYet) numbers_[r][buffer] = memory_.add_buffer();
  memory_.resize(number(r, buffer), static_cast<uint32_t>(index + count));
  return 0;
}

// Reads a range that exists; a fault where it was written after `stamp`, or never.
int64_t Trace::check_contents(uint32_t rank, uint32_t buffer, uint32_t index, uint32_t count, uint32_t stamp,
                              Segments& found) {
  const Place place = locate(rank, buffer, index);
  memory_.read(number(rank, place.buffer), place.index, count, found);
  uint32_t at = index;
  for (const Segment& s : found) {
    if (s.written_at > stamp) return fail(FaultKind::stale, rank, buffer, at, s.written_at);
    if (s.value == kGarbage) return fail(FaultKind::uninitialized, rank, buffer, at, 0);
    at += s.count;
  }
  return 0;
}

int64_t Trace::chunk(int64_t rank, uint32_t buffer, int64_t index, int64_t count) {
  if (const int64_t fault = check_range(rank, buffer, index, count, false); fault < 0) return fault;
  const auto stamp = static_cast<uint32_t>(operations_.size());
  const int64_t fault = check_contents(static_cast<uint32_t>(rank), buffer, static_cast<uint32_t>(index),
                                       static_cast<uint32_t>(count), stamp, source_);
  return fault < 0 ? fault : stamp;
}

int64_t Trace::check_fresh(uint32_t rank, uint32_t buffer, uint32_t index, uint32_t count, uint32_t stamp) {
  return check_contents(rank, buffer, index, count, stamp, source_);
}

int64_t Trace::record(Kind kind, uint32_t src_rank, uint32_t src_buffer, uint32_t src_index, uint32_t src_stamp,
                      int64_t dst_rank, uint32_t dst_buffer, int64_t dst_index, uint32_t dst_stamp, uint32_t count,
                      int32_t channel, int32_t send_threadblock, int32_t recv_threadblock, uint32_t parallel,
                      uint32_t line) {
  if (operations_.size() >= kMaxOperations) return fail(FaultKind::too_large, src_rank, src_buffer, src_index, 0);
  if (int64_t fault = check_contents(src_rank, src_buffer, src_index, count, src_stamp, source_); fault < 0)
    return fault;
  if (int64_t fault = check_range(dst_rank, dst_buffer, dst_index, count, kind == Kind::copy); fault < 0) return fault;
  const auto to_rank = static_cast<uint32_t>(dst_rank), to_index = static_cast<uint32_t>(dst_index);
  const Place from = locate(src_rank, src_buffer, src_index), to = locate(to_rank, dst_buffer, to_index);
  const bool same_buffer = src_rank == to_rank && from.buffer == to.buffer;
  if (same_buffer && from.index != to.index && from.index < to.index + count && to.index < from.index + count)
    return fail(FaultKind::overlap, to_rank, dst_buffer, dst_index, 0);
  if (same_buffer && from.index == to.index && kind == Kind::copy) return static_cast<int64_t>(operations_.size());
  if (kind == Kind::reduce) {
    if (int64_t fault = check_contents(to_rank, dst_buffer, to_index, count, dst_stamp, target_); fault < 0)
      return fault;
    if (int64_t fault = add_up(to_rank, dst_buffer, to_index); fault < 0) return fault;
  }
  operations_.push_back({static_cast<uint16_t>(kind), static_cast<uint16_t>(from.buffer),
                         static_cast<uint16_t>(to.buffer), 0, src_rank, from.index, to_rank, to.index, count, channel,
                         send_threadblock, recv_threadblock, parallel, 0, line});
  const auto now = static_cast<uint32_t>(operations_.size());
  memory_.write(number(to_rank, to.buffer), to.index, kind == Kind::reduce ? sums_ : source_, now);
  return now;
}

std::pair<size_t, int64_t> Trace::record_moves(std::span<const Move> moves, int32_t channel, uint32_t parallel,
                                               uint32_t line) {
  if (const size_t needed = operations_.size() + moves.size(); needed > operations_.capacity())
    operations_.reserve(std::max(needed, 2 * operations_.capacity()));
  for (size_t row = 0; row < moves.size(); ++row) {
    const Move& m = moves[row];
    const auto src_buffer = static_cast<uint32_t>(m.src_buffer), now = static_cast<uint32_t>(operations_.size());
    int64_t code = check_range(m.src_rank, src_buffer, m.src_index, m.count, false);
    if (code >= 0)
      code = record(static_cast<Kind>(m.kind), static_cast<uint32_t>(m.src_rank), src_buffer,
                    static_cast<uint32_t>(m.src_index), now, m.dst_rank, static_cast<uint32_t>(m.dst_buffer),
                    m.dst_index, now, static_cast<uint32_t>(m.count), channel, kAutomatic, kAutomatic, parallel, line);
    if (code < 0) return {row, code};
  }
  return {moves.size(), 0};
}

// The sums of source and target; a fault where a contribution is in both. Nothing is stored yet.
int64_t Trace::add_up(uint32_t rank, uint32_t buffer, uint32_t index) {
  add_ranges(values_, target_, source_, sums_);
  uint32_t at = index;
  for (const Segment& s : sums_) {
    if (values_.double_counts(s.value)) {
      const int64_t code = fail(FaultKind::double_count, rank, buffer, at, 0);
      if (const auto found = values_.contributions(s.value))
        std::tie(fault_.origin_rank, fault_.origin_index) = *std::ranges::adjacent_find(*found);
      return code;
    }
    at += s.count;
  }
  return 0;
}

bool Trace::contributions(int64_t rank, uint32_t buffer, int64_t index,
                          std::vector<std::pair<uint32_t, uint32_t>>& found) const {
  if (index < 0 || index >= size(rank, buffer)) return false;
  const auto r = static_cast<uint32_t>(rank);
  const Place place = locate(r, buffer, static_cast<uint32_t>(index));
  Segments one;
  memory_.read(number(r, place.buffer), place.index, 1, one);
  if (one.front().value == kGarbage) return false;
  auto sum = values_.contributions(one.front().value);
  ENFORCE(sum.has_value(), "a sum of more contributions than can be listed");
  found = std::move(*sum);
  return true;
}

void Trace::stored(uint32_t rank, uint32_t buffer, uint32_t index, uint32_t count, Segments& found) const {
  memory_.read(number(rank, buffer), index, count, found);
}

std::pair<std::vector<uint32_t>, std::vector<Operation>> Trace::finish() const {
  std::vector<uint32_t> totals;
  std::vector<std::vector<uint32_t>> base(numbers_.size());
  for (uint32_t rank = 0; rank < numbers_.size(); ++rank) {
    uint32_t total = 0;
    for (uint32_t buffer = 0; buffer < numbers_[rank].size(); ++buffer) {
      base[rank].push_back(buffer < kScratch ? 0 : total);
      if (buffer >= kScratch) total += static_cast<uint32_t>(named_size(rank, buffer));
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
