#include "simulator/simulator.h"

#include <nanobind/stl/vector.h>

#include <vector>

#include "bindings/arrays.h"
#include "bindings/bindings.h"

namespace hemiola::bindings {

namespace {

using simulator::Job, simulator::Result, simulator::Setting, simulator::WorkResources;

// A job with the memory that it is made of.
struct JobArrays {
  PlanArrays plan;
  Column<double> tile_bytes;
  double step_seconds, threadblock_bandwidth;

  Job view() const { return {plan.view(), column(tile_bytes), step_seconds, threadblock_bandwidth}; }
};

std::span<const WorkResources> work_resources(const Column<int32_t>& columns) {
  constexpr size_t kNumColumns = sizeof(WorkResources) / sizeof(int32_t);
  ENFORCE(columns.size() % kNumColumns == 0);
  return {reinterpret_cast<const WorkResources*>(columns.data()), columns.size() / kNumColumns};
}

void bind_results(nb::module_& module) {
  nb::enum_<simulator::Cause>(module, "Cause", nb::is_arithmetic(), "What a step waited for last.")
#define CAUSE(name) .value(upper(#name).c_str(), simulator::Cause::name)
#include "simulator/causes.def"
#undef CAUSE
      ;
  nb::enum_<simulator::PathPieceKind>(module, "PathPieceKind", nb::is_arithmetic(),
                                      "What the critical path spends time on.")
#define PATH_PIECE(name) .value(upper(#name).c_str(), simulator::PathPieceKind::name)
#include "simulator/path_pieces.def"
#undef PATH_PIECE
      ;
  nb::class_<Result>(module, "SimulationResult")
      .def_ro("ended", &Result::ended, "False where some threadblock waits forever.")
      .def_ro("seconds", &Result::seconds)
      .def_prop_ro("threadblock_seconds", lend<double>(&Result::block_seconds), "When each is done, of all jobs.")
      .def_prop_ro("threadblock_class", lend<uint32_t>(&Result::block_class), "The one that stands for each.")
      .def_prop_ro("resource_class", lend<uint32_t>(&Result::resource_class))
      .def_ro("num_simulated", &Result::num_simulated, "Steps of tiles.")
      .def_ro("by_events", &Result::by_events)
      .def_prop_ro("records", lend<uint8_t>(&Result::records), "Rows of Record.")
      .def_prop_ro("path", lend<uint8_t>(&Result::path), "Rows of PathPiece, from the end to the beginning.");
}

}  // namespace

void bind_simulator(nb::module_& module) {
  bind_results(module);
  nb::class_<JobArrays>(module, "Job", "A plan with the data that it moves.")
      .def(nb::init<PlanArrays, Column<double>, double, double>(), "plan"_a, nb::kw_only(), "tile_bytes"_a,
           "step_seconds"_a, "threadblock_bandwidth"_a,
           "Bytes of a chunk in every tile, seconds of a message beside its bytes, and what a threadblock moves.");
  module.def(
      "simulate",
      [](const std::vector<JobArrays>& given, Column<double> capacities, Column<int64_t> first_hop,
         Column<int64_t> hops, Column<double> latencies, Column<int32_t> work, uint32_t slots, bool fold,
         uint64_t most_records, bool events) {
        std::vector<Job> jobs;
        for (const JobArrays& job : given) jobs.push_back(job.view());
        const Setting setting{column(capacities), column(first_hop),    column(hops),
                              column(latencies),  work_resources(work), slots};
        const nb::gil_scoped_release unlocked;
        return simulator::simulate(jobs, setting, {fold, most_records, events});
      },
      "jobs"_a, nb::kw_only(), "capacities"_a, "first_hop"_a, "hops"_a, "latencies"_a, "work"_a, "slots"_a, "fold"_a,
      "most_records"_a, "events"_a);
}

}  // namespace hemiola::bindings
