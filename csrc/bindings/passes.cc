#include "passes/passes.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <optional>
#include <utility>

#include "bindings/arrays.h"
#include "bindings/bindings.h"

namespace hemiola::bindings {

namespace {

// A pass from instructions to instructions that needs nothing else.
template <typename Pass>
auto plain_pass(Pass pass) {
  return [pass](Bytes instructions) { return give_rows(pass(rows<Instruction>(instructions))); };
}

auto give_waits(Waits&& waits) {
  return std::pair(give<uint32_t>(std::move(waits.first)), give<uint32_t>(std::move(waits.on)));
}

void bind_results(nb::module_& module) {
  nb::class_<Fused>(module, "Fused")
      .def_prop_ro("instructions", lend<uint8_t>(&Fused::instructions))
      .def_ro("left_apart", &Fused::left_apart, "Pairs that only the number of slots kept from being fused.");
  nb::class_<ThreadblockConflict>(module, "ThreadblockConflict", "Why threadblocks given by hand cannot be had.")
      .def_ro("rank", &ThreadblockConflict::rank)
      .def_ro("threadblock", &ThreadblockConflict::threadblock)
      .def_ro("line", &ThreadblockConflict::line)
      .def_ro("other_line", &ThreadblockConflict::other_line)
      .def_ro("what", &ThreadblockConflict::what);
  nb::class_<Threadblocks>(module, "Threadblocks")
      .def_prop_ro("instructions", lend<uint8_t>(&Threadblocks::instructions))
      .def_prop_ro("conflict",
                   [](const Threadblocks& self) -> std::optional<ThreadblockConflict> {
                     if (self.conflict.rank == kNone) return std::nullopt;
                     return self.conflict;
                   })
      .def_ro("most", &Threadblocks::most, "Threadblocks of the rank that has most.")
      .def_ro("most_per_channel", &Threadblocks::most_per_channel, "Of one channel of a rank.");
  nb::class_<PlanTables>(module, "PlanTables")
      .def_prop_ro("first_threadblock", lend<uint32_t>(&PlanTables::first_threadblock), "Per rank.")
      .def_prop_ro("threadblocks", lend<uint8_t>(&PlanTables::threadblocks))
      .def_prop_ro("steps", lend<uint8_t>(&PlanTables::steps))
      .def_prop_ro("dependencies", lend<uint8_t>(&PlanTables::dependencies));
}

}  // namespace

void bind_passes(nb::module_& module) {
  bind_results(module);
  module.def(
      "order_operations",
      [](Bytes operations, Column<uint32_t> chunks) {
        return give_rows(order_operations(rows<Operation>(operations), Layout(column(chunks))));
      },
      "operations"_a, "chunks"_a);
  module.def("lower", [](Bytes operations) { return give_rows(lower(rows<Operation>(operations))); }, "operations"_a);
  module.def(
      "forward_copies",
      [](Bytes instructions, Column<uint32_t> chunks, Column<uint32_t> kept) {
        return give_rows(forward_copies(rows<Instruction>(instructions), Layout(column(chunks)), column(kept)));
      },
      "instructions"_a, "chunks"_a, "kept"_a);
  module.def(
      "fuse",
      [](Bytes instructions, Column<uint32_t> chunks, Column<uint32_t> kept, uint32_t slots) {
        return fuse(rows<Instruction>(instructions), Layout(column(chunks)), column(kept), slots);
      },
      "instructions"_a, "chunks"_a, "kept"_a, "slots"_a);
  module.def("pair_connections", plain_pass(pair_connections), "instructions"_a);
  module.def("unfuse", plain_pass(unfuse), "instructions"_a);
  module.def(
      "assign_threadblocks",
      [](Bytes instructions, Column<uint32_t> chunks, bool merge) {
        return assign_threadblocks(rows<Instruction>(instructions), Layout(column(chunks)), merge);
      },
      "instructions"_a, "chunks"_a, "merge"_a);
  module.def(
      "order_steps",
      [](Bytes instructions, Column<uint32_t> chunks, uint32_t num_operations, uint32_t slots) {
        return give_rows(order_steps(rows<Instruction>(instructions), Layout(column(chunks)), num_operations, slots));
      },
      "instructions"_a, "chunks"_a, "num_operations"_a, "slots"_a);
  module.def(
      "insert_dependencies",
      [](Bytes instructions, Column<uint32_t> chunks) {
        return give_waits(insert_dependencies(rows<Instruction>(instructions), Layout(column(chunks))));
      },
      "instructions"_a, "chunks"_a, "Row i waits for rows on[first[i] : first[i + 1]]; returns first and on.");
  module.def(
      "drop_redundant_dependencies",
      [](Bytes instructions, Column<uint32_t> first, Column<uint32_t> on) {
        return give_waits(drop_redundant_dependencies(rows<Instruction>(instructions), column(first), column(on)));
      },
      "instructions"_a, "first"_a, "on"_a);
  module.def(
      "emit",
      [](Bytes instructions, uint32_t num_ranks, Column<uint32_t> first, Column<uint32_t> on) {
        return emit(rows<Instruction>(instructions), num_ranks, column(first), column(on));
      },
      "instructions"_a, "num_ranks"_a, "first"_a, "on"_a);
}

}  // namespace hemiola::bindings
