#include "proof/proof.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/bindings.h"
#include "proof/promises.h"

namespace hemiola::bindings {

namespace {

// How the rows of an instruction dag ran.
struct InstructionRun {
  std::optional<uint32_t> stuck;
  std::vector<BrokenPromise> broken;
};

void bind_kinds(nb::module_& module) {
  nb::enum_<ConnectionFaultKind>(module, "ConnectionFaultKind", "How the two ends of a connection fail to match.")
#define CONNECTION_FAULT(name) .value(upper(#name).c_str(), ConnectionFaultKind::name)
#include "proof/connection_faults.def"
#undef CONNECTION_FAULT
      ;
  nb::enum_<WaitKind>(module, "WaitKind", "What a step that stands still waits for.")
#define WAIT_KIND(name) .value(upper(#name).c_str(), WaitKind::name)
#include "proof/wait_kinds.def"
#undef WAIT_KIND
      ;
}

void bind_findings(nb::module_& module) {
  nb::class_<ConnectionFault>(module, "ConnectionFault", "Rows of the plan; NO_ROW where there is none.")
      .def_ro("kind", &ConnectionFault::kind)
      .def_ro("block", &ConnectionFault::block)
      .def_ro("other_block", &ConnectionFault::other_block)
      .def_ro("step", &ConnectionFault::step)
      .def_ro("other_step", &ConnectionFault::other_step);
  nb::class_<BlockedStep>(module, "BlockedStep", "A step that waits forever, and for whom.")
      .def_ro("step", &BlockedStep::step)
      .def_ro("block", &BlockedStep::block)
      .def_ro("kind", &BlockedStep::kind)
      .def_ro("awaited_block", &BlockedStep::awaited_block);
  nb::class_<Race>(module, "Race", "Two accesses to a chunk of a rank that nothing orders.")
      .def_ro("step", &Race::step)
      .def_ro("other_step", &Race::other_step)
      .def_ro("rank", &Race::rank)
      .def_ro("chunk", &Race::chunk)
      .def_ro("writes", &Race::writes)
      .def_ro("other_writes", &Race::other_writes);
  nb::class_<BrokenPromise>(module, "BrokenPromise", "A promised range that holds something else at the end.")
      .def_ro("row", &BrokenPromise::row, "Of the promises.")
      .def_ro("offset", &BrokenPromise::offset, "The first chunk of the range that is wrong.")
      .def_ro("garbage", &BrokenPromise::garbage, "It is built on a chunk that nothing has written.")
      .def_ro("found", &BrokenPromise::found,
              "(rank, input chunk) of what it holds; None where that is too long or others were listed before.")
      .def("__repr__", [](const BrokenPromise& self) {
        return "row " + std::to_string(self.row) + ", chunk " + std::to_string(self.offset) + " of it";
      });
  nb::class_<Proof>(module, "Proof", "What the proof of a plan found; numbers are rows of its tables.")
      .def_ro("overlaps", &Proof::overlaps, "Steps whose source and destination overlap without being the same.")
      .def_ro("connection_faults", &Proof::connection_faults)
      .def_ro("stuck", &Proof::stuck, "A cycle of steps that wait for each other with any number of slots.")
      .def_ro("stuck_by_step", &Proof::stuck_by_step)
      .def_ro("stuck_by_chunk", &Proof::stuck_by_chunk)
      .def_ro("races", &Proof::races)
      .def_prop_ro("broken", [](const Proof& self) { return self.fulfilment.broken; })
      .def_prop_ro("same_expression", [](const Proof& self) { return self.fulfilment.same_expression; })
      .def_ro("too_large", &Proof::too_large, "Ranges cut each other into more pieces than can be looked at.");
  nb::class_<PackedRun>(module, "PackedRun", "Neighbouring packings, under which every step is as many messages.")
      .def_ro("least_packing", &PackedRun::least_packing)
      .def_ro("most_packing", &PackedRun::most_packing)
      .def_ro("cycle", &PackedRun::cycle, "Steps that wait for each other; empty where the plan ends.");
  nb::class_<InstructionRun>(module, "InstructionRun")
      .def_ro("stuck", &InstructionRun::stuck, "The first row whose message was not sent before it.")
      .def_ro("broken", &InstructionRun::broken);
}

}  // namespace

void bind_proof(nb::module_& module) {
  bind_kinds(module);
  bind_findings(module);
  module.def(
      "prove",
      [](const PlanArrays& plan, const MeaningArrays& meaning, Column<uint32_t> chunks, uint32_t alias_source,
         uint32_t alias_target, Column<int32_t> alias_offset, uint32_t slots, size_t limit) {
        const Layout layout(column(chunks));
        const PlacedPlan placed{plan.view(), &layout, alias_source, alias_target, column(alias_offset)};
        return prove(placed, meaning.view(), slots, limit);
      },
      "plan"_a, "meaning"_a, nb::kw_only(), "chunks"_a, "alias_source"_a, "alias_target"_a, "alias_offset"_a, "slots"_a,
      "limit"_a);
  module.def(
      "run_packings",
      [](const PlanArrays& plan, uint32_t slots, uint32_t least, uint32_t most) {
        return run_packings(PlacedPlan{plan.view(), nullptr, 0, 0, {}}, slots, least, most);
      },
      "plan"_a, nb::kw_only(), "slots"_a, "least"_a, "most"_a,
      "Whether a plan whose connections match ends, under every number of chunks in a message of a range.");
  module.def(
      "run_operations",
      [](Bytes operations, Column<uint32_t> chunks, const MeaningArrays& meaning) {
        const Layout layout(column(chunks));
        SequentialRun ran = run_operations(rows<Operation>(operations), meaning.view(), layout);
        return check_promises(ran.state, meaning.view(), 1).broken;
      },
      "operations"_a, "chunks"_a, "meaning"_a,
      "Runs operations in their order; at most one promise that does not hold.");
  module.def(
      "run_instructions",
      [](Bytes instructions, uint32_t num_operations, Column<uint32_t> chunks, const MeaningArrays& meaning) {
        const Layout layout(column(chunks));
        SequentialRun ran = run_instructions(rows<Instruction>(instructions), num_operations, meaning.view(), layout);
        InstructionRun result;
        if (ran.stuck != kNone) result.stuck = ran.stuck;
        result.broken = check_promises(ran.state, meaning.view(), 1).broken;
        return result;
      },
      "instructions"_a, "num_operations"_a, "chunks"_a, "meaning"_a);
}

}  // namespace hemiola::bindings
