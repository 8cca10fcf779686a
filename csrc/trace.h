// Trace: records the operations of a chunk program and what every chunk holds after each, so that a mistake
// is found at the operation that makes it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "memory.h"
#include "tables.h"
#include "values.h"

namespace hemiola {

// Why an operation was refused; Python says it in words (hemiola/language/faults.py).
enum class FaultKind : int64_t {
#define TRACE_FAULT(name, code) name = code,
#include "trace_faults.def"
#undef TRACE_FAULT
};

struct Fault {
  uint32_t rank = 0, buffer = 0;
  int64_t index = 0, size = 0;
  uint32_t line = 0;                           // of the operation that wrote the chunk last, 0 for none
  uint32_t origin_rank = 0, origin_index = 0;  // the contribution that is counted twice
};

class Trace {
 public:
  Trace(std::span<const uint32_t> inputs, std::span<const uint32_t> outputs, uint32_t alias_source,
        uint32_t alias_target, std::span<const int32_t> alias_offset, std::span<const Holding> held);

  // The stamp of a new reference, or a FaultKind.
  int64_t chunk(int64_t rank, uint32_t buffer, int64_t index, int64_t count);
  // The stamp of what was written, or a FaultKind.
  int64_t record(Kind kind, uint32_t src_rank, uint32_t src_buffer, uint32_t src_index, uint32_t src_stamp,
                 int64_t dst_rank, uint32_t dst_buffer, int64_t dst_index, uint32_t dst_stamp, uint32_t count,
                 int32_t channel, int32_t send_threadblock, int32_t recv_threadblock, uint32_t parallel, uint32_t line);
  // Records every row in order, with references taken when its turn comes. How many were recorded, and the
  // FaultKind of the row behind them, or 0.
  std::pair<size_t, int64_t> record_moves(std::span<const Move> moves, int32_t channel, uint32_t parallel,
                                          uint32_t line);
  int64_t check_fresh(uint32_t rank, uint32_t buffer, uint32_t index, uint32_t count, uint32_t stamp);
  int64_t size(int64_t rank, uint32_t buffer) const;
  // False when nothing was written there; otherwise (rank, input chunk) of what it adds up.
  bool contributions(int64_t rank, uint32_t buffer, int64_t index,
                     std::vector<std::pair<uint32_t, uint32_t>>& found) const;
  // What a range of a buffer in memory holds.
  void stored(uint32_t rank, uint32_t buffer, uint32_t index, uint32_t count, Segments& found) const;
  Values& values() { return values_; }
  const Fault& fault() const { return fault_; }
  // Scratch chunks per rank, and the operations with every scratch buffer laid out in one.
  std::pair<std::vector<uint32_t>, std::vector<Operation>> finish() const;

 private:
  struct Place {
    uint32_t buffer, index;
  };

  Place locate(uint32_t rank, uint32_t buffer, uint32_t index) const;
  int64_t named_size(uint32_t rank, uint32_t buffer) const;
  size_t number(uint32_t rank, uint32_t buffer) const { return numbers_[rank][buffer]; }
  int64_t fail(FaultKind kind, uint32_t rank, uint32_t buffer, int64_t index, uint32_t written_at);
  int64_t check_range(int64_t rank, uint32_t buffer, int64_t index, int64_t count, bool may_grow);
  int64_t check_contents(uint32_t rank, uint32_t buffer, uint32_t index, uint32_t count, uint32_t stamp,
                         Segments& found);
  int64_t add_up(uint32_t rank, uint32_t buffer, uint32_t index);

  std::vector<std::vector<size_t>> numbers_;  // rank, buffer -> buffer of memory_
  std::vector<uint32_t> inputs_, outputs_;
  uint32_t alias_source_, alias_target_;
  std::vector<int32_t> alias_offset_;
  std::vector<Operation> operations_;
  Memory memory_;
  Values values_;
  Segments source_, target_, sums_;
  Fault fault_;
};

}  // namespace hemiola
