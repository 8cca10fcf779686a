#include "trace.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/bindings.h"

namespace hemiola::bindings {

void bind_trace(nb::module_& module) {
  using Contributions = std::vector<std::pair<uint32_t, uint32_t>>;
  nb::enum_<FaultKind>(module, "TraceFault", nb::is_arithmetic(),
                       "Why the trace refused an operation; returned where otherwise a stamp stands.")
#define TRACE_FAULT(name, code) .value(upper(#name).c_str(), FaultKind::name)
#include "trace_faults.def"
#undef TRACE_FAULT
      ;
  nb::class_<Fault>(module, "Fault", "Where the trace refused an operation.")
      .def_ro("rank", &Fault::rank)
      .def_ro("buffer", &Fault::buffer)
      .def_ro("index", &Fault::index)
      .def_ro("size", &Fault::size)
      .def_ro("line", &Fault::line, "Of the operation that wrote the chunk last, 0 for none.")
      .def_ro("origin_rank", &Fault::origin_rank, "Of the contribution that is counted twice.")
      .def_ro("origin_index", &Fault::origin_index);
  nb::class_<Trace>(module, "Trace", "Records a chunk program, and what every chunk holds after each operation.")
      .def(
          "__init__",
          [](Trace* self, Column<uint32_t> inputs, Column<uint32_t> outputs, uint32_t alias_source,
             uint32_t alias_target, Column<int32_t> alias_offset, Bytes held) {
            new (self) Trace(column(inputs), column(outputs), alias_source, alias_target, column(alias_offset),
                             rows<Holding>(held));
          },
          "inputs"_a, "outputs"_a, "alias_source"_a, "alias_target"_a, "alias_offset"_a, "held"_a)
      // Tracing spends much of its time in chunk() and record(). Named arguments would have to be matched by their
      // names in every call, and a struct made in Python costs as much as the record itself, so that these two stay
      // positional and take plain numbers; their signatures say what they take.
      .def("chunk", &Trace::chunk, nb::sig("def chunk(self, rank: int, buffer: int, index: int, count: int, /) -> int"),
           "The stamp of a new reference, or a TraceFault.")
      .def(
          "record",
          [](Trace& self, uint32_t kind, uint32_t src_rank, uint32_t src_buffer, uint32_t src_index, uint32_t src_stamp,
             int64_t dst_rank, uint32_t dst_buffer, int64_t dst_index, uint32_t dst_stamp, uint32_t count,
             int32_t channel, int32_t send_threadblock, int32_t recv_threadblock, uint32_t parallel, uint32_t line) {
            return self.record(static_cast<Kind>(kind), src_rank, src_buffer, src_index, src_stamp, dst_rank,
                               dst_buffer, dst_index, dst_stamp, count, channel, send_threadblock, recv_threadblock,
                               parallel, line);
          },
          nb::sig("def record(self, kind: int, src_rank: int, src_buffer: int, src_index: int, src_stamp: int, "
                  "dst_rank: int, dst_buffer: int, dst_index: int, dst_stamp: int, count: int, channel: int, "
                  "send_threadblock: int, recv_threadblock: int, parallel: int, line: int, /) -> int"),
          "The stamp of what was written, or a TraceFault.")
      .def(
          "record_moves",
          [](Trace& self, Bytes moves, int32_t channel, uint32_t parallel, uint32_t line) {
            return self.record_moves(rows<Move>(moves), channel, parallel, line);
          },
          "moves"_a, "channel"_a, "parallel"_a, "line"_a,
          "How many rows of Move were recorded, and the TraceFault of the row behind them, or 0.")
      .def("check_fresh", &Trace::check_fresh, "rank"_a, "buffer"_a, "index"_a, "count"_a, "stamp"_a)
      .def("size", &Trace::size, "rank"_a, "buffer"_a)
      .def(
          "broken_promises",
          [](Trace& self, const MeaningArrays& meaning) {
            const Reader read = [&](const Promise& p, Segments& found) {
              self.stored(p.rank, p.buffer, p.index, p.count, found);
            };
            return check_promises(self.values(), read, meaning.view(), 1).broken;
          },
          "meaning"_a, "At most one.")
      .def(
          "contributions",
          [](const Trace& self, int64_t rank, uint32_t buffer, int64_t index) -> std::optional<Contributions> {
            Contributions found;
            if (!self.contributions(rank, buffer, index, found)) return std::nullopt;
            return found;
          },
          "rank"_a, "buffer"_a, "index"_a,
          "(rank, input chunk) of what a chunk adds up; None where nothing was written.")
      .def_prop_ro(
          "fault", [](const Trace& self) { return self.fault(); }, "What was refused last.")
      .def(
          "finish",
          [](const Trace& self) {
            auto [scratch, operations] = self.finish();
            return std::pair(give<uint32_t>(std::move(scratch)), give_rows(std::move(operations)));
          },
          "Scratch chunks of every rank, and the operations.");
}

}  // namespace hemiola::bindings
