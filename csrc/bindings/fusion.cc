#include <nanobind/stl/vector.h>

#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/bindings.h"
#include "fusion/step_model.h"

namespace hemiola::bindings {

namespace {

using fusion::Buckets, fusion::Groups, fusion::Merged, fusion::MergedStep, fusion::Message, fusion::MessageKind,
    fusion::PriceTable, fusion::StepCosts, fusion::StepModel, fusion::StepResult;

std::vector<double> copied(const Column<double>& values) { return {values.data(), values.data() + values.size()}; }

PriceTable price_table(const Column<double>& sizes, const Column<double>& seconds, double slope) {
  ENFORCE(sizes.size() > 0 && sizes.size() == seconds.size());
  return {copied(sizes), copied(seconds), slope};
}

Groups groups_of(const Column<double>& seconds, const Column<int32_t>& ready, const Column<int32_t>& read) {
  return {column(seconds), column(ready), column(read)};
}

Buckets buckets_of(const Column<int32_t>& first, const Column<int32_t>& gradients, const Column<uint8_t>& split,
                   const Column<int32_t>& parts) {
  return {column(first), column(gradients), column(split), column(parts)};
}

void bind_values(nb::module_& module) {
  nb::enum_<MessageKind>(module, "MessageKind", nb::is_arithmetic(), "What a message of a bucket does.")
      .value("ALLREDUCE", MessageKind::allreduce)
      .value("REDUCE_SCATTER", MessageKind::reduce_scatter)
      .value("ALL_GATHER", MessageKind::all_gather);
  nb::class_<Message>(module, "BucketMessage", "A part of a bucket on the communication stream.")
      .def_ro("seconds", &Message::seconds, "Were it alone.")
      .def_ro("share", &Message::share, "Of the core that computes, while it is under way.")
      .def_ro("bytes", &Message::bytes)
      .def_ro("bucket", &Message::bucket)
      .def_ro("part", &Message::part)
      .def_ro("kind", &Message::kind);
  nb::class_<PriceTable>(module, "PriceTable", "Seconds by bytes: straight lines between sizes, and a slope beyond.")
      .def(
          "__init__",
          [](PriceTable* self, const Column<double>& sizes, const Column<double>& seconds, double slope) {
            new (self) PriceTable(price_table(sizes, seconds, slope));
          },
          "sizes"_a, "seconds"_a, "slope"_a)
      .def("__call__", &PriceTable::at, "num_bytes"_a);
  nb::class_<StepCosts>(module, "StepCosts", "What messages, copies, calls and the optimizer take.")
      .def(nb::init<PriceTable, PriceTable, PriceTable, double, double, double, double, double, double>(),
           "allreduce"_a, "reduce_scatter"_a, "all_gather"_a, nb::kw_only(), "contention"_a, "copy"_a, "call"_a,
           "optimizer"_a, "optimizer_call"_a, "shard"_a);
  nb::class_<Merged>(module, "Merged", "The fastest cut of a row of gradients into buckets.")
      .def_ro("seconds", &Merged::seconds, "When the last optimizer ends.")
      .def_prop_ro("first", lend<int32_t>(&Merged::first),
                   "The first gradient of each bucket, and one more at the end.");
  nb::class_<MergedStep>(module, "MergedStep", "Buckets that are merged as fast as may be for given groups.")
      .def_ro("seconds", &MergedStep::seconds)
      .def_prop_ro("first", lend<int32_t>(&MergedStep::first), "Where each bucket begins, and one more at the end.")
      .def_prop_ro("gradients", lend<int32_t>(&MergedStep::gradients), "In the order in which they are made.");
  nb::class_<StepResult>(module, "StepResult", "The steady state of a step.")
      .def_ro("seconds", &StepResult::seconds)
      .def_ro("compute", &StepResult::compute)
      .def_ro("communication", &StepResult::communication)
      .def_ro("exposed", &StepResult::exposed)
      .def_ro("contended", &StepResult::contended)
      .def_ro("messages", &StepResult::messages)
      .def_prop_ro("tasks", lend<double>(&StepResult::tasks), "Begin and end of groups and optimizers, in turn.")
      .def_prop_ro("message_spans", lend<double>(&StepResult::message_spans), "Begin and end of messages, in turn.");
}

}  // namespace

void bind_fusion(nb::module_& module) {
  bind_values(module);
  nb::class_<StepModel>(module, "StepModel", "Times of training steps of one graph.")
      .def(
          "__init__",
          [](StepModel* self, const StepCosts& costs, const Column<double>& gradient_bytes) {
            new (self) StepModel(costs, copied(gradient_bytes));
          },
          "costs"_a, "gradient_bytes"_a)
      .def(
          "evaluate",
          [](const StepModel& model, const Column<double>& seconds, const Column<int32_t>& ready,
             const Column<int32_t>& read, const Column<int32_t>& first, const Column<int32_t>& gradients,
             const Column<uint8_t>& split, const Column<int32_t>& parts, bool record) {
            return model.evaluate(groups_of(seconds, ready, read), buckets_of(first, gradients, split, parts), record);
          },
          "seconds"_a, "ready"_a, "read"_a, "first"_a, "gradients"_a, "split"_a, "parts"_a, "record"_a = false,
          "Groups: seconds of each, and of every gradient the group that makes it and the first that reads its "
          "parameter. Buckets: where each begins among gradients, in which form it goes, and in how many parts.")
      .def(
          "merge",
          [](const StepModel& model, const Column<double>& ready, const Column<double>& bytes, double groups_end) {
            return model.merge(column(ready), column(bytes), groups_end);
          },
          "ready"_a, "bytes"_a, "groups_end"_a,
          "The fastest cut of a row of gradients, by the times at which they are ready, into buckets of neighbours.")
      .def(
          "merge_step",
          [](const StepModel& model, const Column<double>& seconds, const Column<int32_t>& ready,
             const Column<int32_t>& read,
             bool apart) { return model.merge_step(groups_of(seconds, ready, read), apart); },
          "seconds"_a, "ready"_a, "read"_a, "apart"_a = false,
          "The buckets of all-reduces that are fastest for these groups; gradients of one group stay together unless "
          "`apart`.");
}

}  // namespace hemiola::bindings
