#include "simulator/simulator.h"

#include <nanobind/stl/vector.h>

#include <vector>

#include "bindings/arrays.h"
#include "bindings/bindings.h"
#include "simulator/rehearsal.h"

namespace hemiola::bindings {

namespace {

using simulator::Job, simulator::Rehearsal, simulator::Result, simulator::Setting, simulator::WorkResources;

// A job with the memory that it is made of.
struct JobArrays {
  PlanArrays plan;
  Column<double> tile_bytes;
  double step_seconds, threadblock_bandwidth, send_bandwidth, receive_bandwidth, launch_seconds;
  Column<double> act_seconds;

  Job view() const {
    ENFORCE(act_seconds.size() == 0 || act_seconds.size() == plan.view().steps.size());
    return {plan.view(),    column(tile_bytes), step_seconds,   threadblock_bandwidth,
            send_bandwidth, receive_bandwidth,  launch_seconds, column(act_seconds)};
  }
};

std::vector<Job> views(const std::vector<JobArrays>& given) {
  std::vector<Job> jobs;
  for (const JobArrays& job : given) jobs.push_back(job.view());
  return jobs;
}

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

void bind_rehearsal(nb::module_& module) {
  nb::class_<Rehearsal>(module, "Rehearsal",
                        "Jobs that are wired and folded once, and then replayed with tiles of any number and size.")
      .def(
          "__init__",
          [](Rehearsal* made, const std::vector<JobArrays>& given, Column<uint32_t> tile_kinds,
             Column<double> capacities, Column<int64_t> first_hop, Column<int64_t> hops, Column<double> latencies,
             Column<int32_t> work, Column<double> message_bytes, Column<uint8_t> direct, uint32_t slots) {
            const Setting setting{column(capacities),   column(first_hop),     column(hops),   column(latencies),
                                  work_resources(work), column(message_bytes), column(direct), slots};
            new (made) Rehearsal(views(given), setting, column(tile_kinds));
          },
          "jobs"_a, nb::kw_only(), "tile_kinds"_a, "capacities"_a, "first_hop"_a, "hops"_a, "latencies"_a, "work"_a,
          "message_bytes"_a, "direct"_a, "slots"_a,
          "Jobs with equal `tile_kinds` have the same tiles in every replay; those of the jobs are not read.")
      .def(
          "seconds",
          [](Rehearsal& self, const std::vector<Column<double>>& tiles_of_kinds) {
            std::vector<std::span<const double>> tiles;
            for (const Column<double>& one : tiles_of_kinds) tiles.push_back(column(one));
            const nb::gil_scoped_release unlocked;
            return self.seconds(tiles);
          },
          "tiles_of_kinds"_a, "Until the last threadblock ends; negative where some threadblock waits forever.")
      .def_prop_ro("num_steps", &Rehearsal::num_steps, "Steps that are stepped for every tile.");
}

}  // namespace

void bind_simulator(nb::module_& module) {
  bind_results(module);
  nb::class_<JobArrays>(module, "Job", "A plan with the data that it moves.")
      .def(nb::init<PlanArrays, Column<double>, double, double, double, double, double, Column<double>>(), "plan"_a,
           nb::kw_only(), "tile_bytes"_a, "step_seconds"_a, "threadblock_bandwidth"_a, "send_bandwidth"_a,
           "receive_bandwidth"_a, "launch_seconds"_a, "act_seconds"_a,
           "Bytes of a chunk in every tile; seconds of a message beside its bytes; what a threadblock moves, sends "
           "where its"
           " sends are direct, and takes in; seconds before the first step, and of every step or of none.");
  bind_rehearsal(module);
  module.def(
      "simulate",
      [](const std::vector<JobArrays>& given, Column<double> capacities, Column<int64_t> first_hop,
         Column<int64_t> hops, Column<double> latencies, Column<int32_t> work, Column<double> message_bytes,
         Column<uint8_t> direct, uint32_t slots, bool fold, uint64_t most_records, bool events) {
        const std::vector<Job> jobs = views(given);
        const Setting setting{column(capacities),   column(first_hop),     column(hops),   column(latencies),
                              work_resources(work), column(message_bytes), column(direct), slots};
        const nb::gil_scoped_release unlocked;
        return simulator::simulate(jobs, setting, {fold, most_records, events});
      },
      "jobs"_a, nb::kw_only(), "capacities"_a, "first_hop"_a, "hops"_a, "latencies"_a, "work"_a, "message_bytes"_a,
      "direct"_a, "slots"_a, "fold"_a, "most_records"_a, "events"_a);
}

}  // namespace hemiola::bindings
