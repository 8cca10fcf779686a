// The only file that knows nanobind: it gives the C++ core to Python as `hemiola._core`.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <span>
#include <vector>

#include "enforce.h"
#include "passes/passes.h"
#include "proof/promises.h"
#include "tables.h"
#include "trace.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace hemiola;

namespace {

template <typename T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = Column<uint8_t>;
using Pairs = nb::ndarray<const uint64_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;

template <typename Row>
std::span<const Row> rows(const Bytes& bytes) {
  ENFORCE(bytes.size() % sizeof(Row) == 0, "a table of ", bytes.size(), " bytes has rows of ", sizeof(Row));
  return {reinterpret_cast<const Row*>(bytes.data()), bytes.size() / sizeof(Row)};
}

template <typename T>
std::span<const T> column(const Column<T>& values) {
  return {values.data(), values.size()};
}

std::span<const uint64_t> column(const Pairs& values) { return {values.data(), values.size()}; }

// Hands a vector's memory to NumPy as an array of `Element`s.
template <typename Element, typename Row>
nb::ndarray<nb::numpy, Element, nb::ndim<1>> give(std::vector<Row>&& values) {
  auto* owned = new std::vector<Row>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<Row>*>(p); });
  const size_t length = owned->size() * sizeof(Row) / sizeof(Element);
  return {reinterpret_cast<Element*>(owned->data()), {length}, owner};
}

template <typename Row>
auto give_rows(std::vector<Row>&& values) {
  return give<uint8_t>(std::move(values));
}

using Contributions = std::vector<std::pair<uint32_t, uint32_t>>;

Meaning meaning_of(const Bytes& held, const Bytes& promised, const Column<uint32_t>& set_first, const Pairs& runs) {
  return {rows<Holding>(held), rows<Promise>(promised), column(set_first), column(runs)};
}

nb::list give_broken(const Fulfilment& fulfilment) {
  nb::list list;
  for (const BrokenPromise& b : fulfilment.broken) list.append(nb::make_tuple(b.row, b.offset, b.garbage, b.found));
  return list;
}

void bind_trace(nb::module_& module) {
  nb::class_<Fault>(module, "Fault")
      .def_ro("rank", &Fault::rank)
      .def_ro("buffer", &Fault::buffer)
      .def_ro("index", &Fault::index)
      .def_ro("size", &Fault::size)
      .def_ro("line", &Fault::line)
      .def_ro("origin_rank", &Fault::origin_rank)
      .def_ro("origin_index", &Fault::origin_index);
  nb::class_<Trace>(module, "Trace")
      .def("__init__",
           [](Trace* self, Column<uint32_t> inputs, Column<uint32_t> outputs, uint32_t alias_source,
              uint32_t alias_target, Column<int32_t> alias_offset, Bytes held) {
             new (self) Trace(column(inputs), column(outputs), alias_source, alias_target, column(alias_offset),
                              rows<Holding>(held));
           })
      .def("chunk", &Trace::chunk)
      .def("record",
           [](Trace& self, uint32_t kind, uint32_t src_rank, uint32_t src_buffer, uint32_t src_index,
              uint32_t src_stamp, int64_t dst_rank, uint32_t dst_buffer, int64_t dst_index, uint32_t dst_stamp,
              uint32_t count, int32_t channel, int32_t send_threadblock, int32_t recv_threadblock,
              uint32_t parallel, uint32_t line) {
             return self.record(static_cast<Kind>(kind), src_rank, src_buffer, src_index, src_stamp, dst_rank,
                                dst_buffer, dst_index, dst_stamp, count, channel, send_threadblock,
                                recv_threadblock, parallel, line);
           })
      .def("check_fresh", &Trace::check_fresh)
      .def("size", &Trace::size)
      .def("broken_promises",
           [](Trace& self, Bytes held, Bytes promised, Column<uint32_t> set_first, Pairs runs) {
             const Reader read = [&](const Promise& p, Segments& found) {
               self.stored(p.rank, p.buffer, p.index, p.count, found);
             };
             return give_broken(check_promises(self.values(), read, meaning_of(held, promised, set_first, runs), 1));
           })
      .def("contributions",
           [](const Trace& self, int64_t rank, uint32_t buffer, int64_t index) -> std::optional<Contributions> {
             Contributions found;
             if (!self.contributions(rank, buffer, index, found)) return std::nullopt;
             return found;
           })
      .def_prop_ro("fault", [](const Trace& self) { return self.fault(); })
      .def("finish", [](const Trace& self) {
        auto [scratch, operations] = self.finish();
        return nb::make_tuple(give<uint32_t>(std::move(scratch)), give_rows(std::move(operations)));
      });
}

// A pass from instructions to instructions that needs nothing else.
template <typename Pass>
auto plain_pass(Pass pass) {
  return [pass](Bytes instructions) { return give_rows(pass(rows<Instruction>(instructions))); };
}

nb::tuple give_waits(Waits&& waits) {
  return nb::make_tuple(give<uint32_t>(std::move(waits.first)), give<uint32_t>(std::move(waits.on)));
}

void bind_passes(nb::module_& module) {
  module.def("order_operations", [](Bytes operations, Column<uint32_t> chunks) {
    return give_rows(order_operations(rows<Operation>(operations), Layout(column(chunks))));
  });
  module.def("lower", [](Bytes operations) { return give_rows(lower(rows<Operation>(operations))); });
  module.def("forward_copies", [](Bytes instructions, Column<uint32_t> chunks, Column<uint32_t> kept) {
    return give_rows(forward_copies(rows<Instruction>(instructions), Layout(column(chunks)), column(kept)));
  });
  module.def("fuse", [](Bytes instructions, Column<uint32_t> chunks, Column<uint32_t> kept, uint32_t slots) {
    Fused fused = fuse(rows<Instruction>(instructions), Layout(column(chunks)), column(kept), slots);
    return nb::make_tuple(give_rows(std::move(fused.instructions)), fused.left_apart);
  });
  module.def("pair_connections", plain_pass(pair_connections));
  module.def("unfuse", plain_pass(unfuse));
  module.def("assign_threadblocks", [](Bytes instructions, Column<uint32_t> chunks, bool merge) {
    Threadblocks made = assign_threadblocks(rows<Instruction>(instructions), Layout(column(chunks)), merge);
    const ThreadblockConflict& c = made.conflict;
    nb::object conflict = nb::none();
    if (c.rank != kNone) conflict = nb::make_tuple(c.rank, c.threadblock, c.line, c.other_line, c.what);
    return nb::make_tuple(give_rows(std::move(made.instructions)), conflict, made.most, made.most_per_channel);
  });
  module.def("order_steps", [](Bytes instructions, Column<uint32_t> chunks, uint32_t num_operations, uint32_t slots) {
    return give_rows(order_steps(rows<Instruction>(instructions), Layout(column(chunks)), num_operations, slots));
  });
  module.def("insert_dependencies", [](Bytes instructions, Column<uint32_t> chunks) {
    return give_waits(insert_dependencies(rows<Instruction>(instructions), Layout(column(chunks))));
  });
  module.def("drop_redundant_dependencies", [](Bytes instructions, Column<uint32_t> first, Column<uint32_t> on) {
    return give_waits(drop_redundant_dependencies(rows<Instruction>(instructions), column(first), column(on)));
  });
  module.def("emit", [](Bytes instructions, uint32_t num_ranks, Column<uint32_t> first, Column<uint32_t> on) {
    PlanTables plan = emit(rows<Instruction>(instructions), num_ranks, column(first), column(on));
    return nb::make_tuple(give<uint32_t>(std::move(plan.first_threadblock)), give_rows(std::move(plan.threadblocks)),
                          give_rows(std::move(plan.steps)), give_rows(std::move(plan.dependencies)));
  });
}

nb::list give_blocked(const std::vector<BlockedStep>& cycle) {
  nb::list list;
  for (const BlockedStep& b : cycle) list.append(nb::make_tuple(b.step, b.block, b.kind, b.awaited_block));
  return list;
}

nb::dict give_proof(const Proof& proof) {
  nb::dict result;
  nb::list faults, races;
  for (const ConnectionFault& f : proof.connection_faults)
    faults.append(nb::make_tuple(f.kind, f.block, f.other_block, f.step, f.other_step));
  for (const Race& r : proof.races)
    races.append(nb::make_tuple(r.step, r.other_step, r.rank, r.chunk, r.writes, r.other_writes));
  result["overlaps"] = proof.overlaps;
  result["connection_faults"] = faults;
  result["stuck"] = give_blocked(proof.stuck);
  result["stuck_by_step"] = give_blocked(proof.stuck_by_step);
  result["stuck_by_chunk"] = give_blocked(proof.stuck_by_chunk);
  result["races"] = races;
  result["broken"] = give_broken(proof.fulfilment);
  result["too_large"] = proof.too_large;
  result["same_expression"] = proof.fulfilment.same_expression;
  return result;
}

void bind_proof(nb::module_& module) {
  module.def("prove", [](Bytes ranks, Bytes threadblocks, Bytes steps, Bytes dependencies, Column<uint32_t> chunks,
                         uint32_t alias_source, uint32_t alias_target, Column<int32_t> alias_offset, Bytes held,
                         Bytes promised, Column<uint32_t> set_first, Pairs runs, uint32_t slots, size_t limit) {
    const Layout layout(column(chunks));
    const PlanView plan{rows<Rank>(ranks), rows<Threadblock>(threadblocks), rows<Step>(steps),
                        rows<Dependency>(dependencies), &layout, alias_source, alias_target, column(alias_offset)};
    return give_proof(prove(plan, meaning_of(held, promised, set_first, runs), slots, limit));
  });
  module.def("run_operations", [](Bytes operations, Column<uint32_t> chunks, Bytes held, Bytes promised,
                                  Column<uint32_t> set_first, Pairs runs) {
    const Layout layout(column(chunks));
    const Meaning meaning = meaning_of(held, promised, set_first, runs);
    SequentialRun ran = run_operations(rows<Operation>(operations), meaning, layout);
    return give_broken(check_promises(ran.state, meaning, 1));
  });
  module.def("run_instructions", [](Bytes instructions, uint32_t num_operations, Column<uint32_t> chunks, Bytes held,
                                    Bytes promised, Column<uint32_t> set_first, Pairs runs) {
    const Layout layout(column(chunks));
    const Meaning meaning = meaning_of(held, promised, set_first, runs);
    SequentialRun ran = run_instructions(rows<Instruction>(instructions), num_operations, meaning, layout);
    return nb::make_tuple(ran.stuck == kNone ? nb::object(nb::none()) : nb::object(nb::int_(ran.stuck)),
                          give_broken(check_promises(ran.state, meaning, 1)));
  });
}

}  // namespace

NB_MODULE(_core, module) {
  module.doc() = "The C++ core of Hemiola: the trace of chunk programs, the passes and the proof.";
  module.def("version", [] { return HEMIOLA_VERSION; }, "The version of the package this core was built for.");
  module.def("opcodes", [] {
    nb::list names;
    for (const OpcodeTraits& t : kOpcodeTraits)
      names.append(nb::make_tuple(t.name, t.receives, t.reads_source, t.reads_destination, t.writes_destination, t.sends));
    return names;
  }, "The table of opcodes, to be compared with hemiola.ir.opcodes.");
  bind_trace(module);
  bind_passes(module);
  bind_proof(module);
}
