#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/bindings.h"
#include "bindings/buffer_view.h"
#include "bindings/failures.h"
#include "bindings/started_call.h"
#include "runtime/member.h"
#include "runtime/part.h"

namespace hemiola::bindings {

namespace {

using runtime::CallMemory, runtime::CallRecord, runtime::CallShape, runtime::Failure, runtime::FailureKind,
    runtime::Member, runtime::Part, runtime::PreparedCall, runtime::TraceEvent;

std::byte* at(uintptr_t address) { return reinterpret_cast<std::byte*>(address); }

nb::object run(const PreparedCall& call, std::byte* input, std::byte* output, std::vector<TraceEvent>* trace) {
  const auto run_unlocked = [&] {
    const nb::gil_scoped_release unlocked;
    return call.run(input, output, trace);
  };
  return give_failure(run_unlocked());
}

// The memory of one side of a call; a rank that has no such side may give anything.
std::optional<BufferView> side(nb::handle object, size_t expected, bool writable, const char* what) {
  std::optional<BufferView> view;
  if (expected == 0) return view;
  view.emplace(object, writable);
  if (view->size() != expected)
    throw std::invalid_argument(std::string("the ") + what + " has " + std::to_string(view->size()) + " bytes, but " +
                                std::to_string(expected) + " were expected");
  return view;
}

nb::object run_on_buffers(const PreparedCall& call, nb::handle input, nb::handle output) {
  const auto& [input_bytes, output_bytes, window] = call.memory;
  const std::optional<BufferView> out = side(output, output_bytes, true, "output");
  if (input.is(output) && input_bytes == output_bytes && out) return run(call, out->data(), out->data(), nullptr);
  const std::optional<BufferView> in = side(input, input_bytes, false, "input");
  return run(call, in ? in->data() : nullptr, out ? out->data() : nullptr, nullptr);
}

std::vector<std::pair<uint32_t, uint32_t>> pairs_of(const std::vector<runtime::Connection>& connections) {
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (const runtime::Connection& c : connections) pairs.emplace_back(c.peer, c.index);
  return pairs;
}

void bind_part(nb::module_& module) {
  nb::class_<Part>(module, "Part", "One rank's part of a plan.")
      .def(
          "__init__",
          [](Part* self, const PlanArrays& plan, uint32_t rank, uint32_t block_chunks, int32_t alias_source,
             uint32_t alias_offset) {
            new (self) Part(runtime::take_part(plan.view(), {rank, block_chunks, alias_source, alias_offset}));
          },
          "plan"_a, nb::kw_only(), "rank"_a, "block_chunks"_a, "alias_source"_a = -1, "alias_offset"_a = 0,
          "In place, chunk i of buffer `alias_source` is chunk `alias_offset` + i of the other one; -1: not in place.")
      .def_prop_ro(
          "sends", [](const Part& self) { return pairs_of(self.sends); }, "(peer, index) of every connection.")
      .def_prop_ro("receives", [](const Part& self) { return pairs_of(self.receives); })
      .def_ro("max_count", &Part::max_count, "Chunks of the largest message of any rank.");
}

void bind_failures(nb::module_& module) {
  nb::enum_<FailureKind>(module, "RunFailureKind", "How a run can fail.")
#define FAILURE_KIND(name) .value(upper(#name).c_str(), FailureKind::name)
#include "runtime/failure_kinds.def"
#undef FAILURE_KIND
      ;
  nb::class_<Failure>(module, "RunFailure", "Why a run failed, and because of which rank.")
      .def(nb::init<FailureKind, int32_t, std::string>(), "kind"_a, "rank"_a, "text"_a)
      .def_ro("kind", &Failure::kind)
      .def_ro("rank", &Failure::rank, "Of the peer that was lost.")
      .def_ro("text", &Failure::text);
}

void bind_endpoint(nb::module_& module) {
  nb::class_<CallRecord>(module, "CallRecord", "A call in the flight recorder.")
      .def_ro("call", &CallRecord::call)
      .def_ro("begin", &CallRecord::begin, "Monotonic nanoseconds.")
      .def_ro("end", &CallRecord::end, "None while the call runs, and after it failed.")
      .def_prop_ro("description", [](const CallRecord& self) { return *self.description; });
  nb::class_<Member>(module, "Endpoint", "A rank's membership in a communicator.")
      .def(
          "__init__",
          [](Member* self, uint32_t rank, uint32_t num_ranks, uint32_t num_slots, uint32_t slot_bytes) {
            new (self) Member(rank, num_ranks, {num_slots, slot_bytes});
            self->executor.interrupted = [] {
              const nb::gil_scoped_acquire lock;
              return PyErr_CheckSignals() != 0;
            };
          },
          "rank"_a, "num_ranks"_a, "num_slots"_a, "slot_bytes"_a)
      .def_prop_ro("segment", [](const Member& self) { return self.endpoint.segment(); })
      .def_prop_ro("call", [](const Member& self) { return self.endpoint.call(); })
      .def_prop_ro("is_forked", [](const Member& self) { return self.endpoint.is_forked(); })
      .def(
          "join_local", [](Member& self, uint32_t peer, int fd, int pid) { self.endpoint.join_local(peer, fd, pid); },
          "peer"_a, "fd"_a, "pid"_a)
      .def(
          "set_linking", [](Member& self, int32_t peer) { self.endpoint.set_linking(peer); }, "peer"_a)
      .def("open_pipe", [](Member& self) { return self.endpoint.open_pipe(); })
      .def(
          "join_pipe", [](Member& self, uint32_t peer, int fd) { self.endpoint.join_pipe(peer, fd); }, "peer"_a, "fd"_a)
      .def(
          "offer_socket",
          [](Member& self, uint32_t peer, uint32_t index, int fd) { self.endpoint.offer_socket(peer, index, fd); },
          "peer"_a, "index"_a, "fd"_a)
      .def(
          "is_local", [](const Member& self, uint32_t peer) { return self.endpoint.is_local(peer); }, "peer"_a)
      .def(
          "has_link", [](Member& self, uint32_t peer, uint32_t index) { return self.endpoint.knows_link(peer, index); },
          "peer"_a, "index"_a)
      .def(
          "configure",
          [](Member& self, uint32_t workers, uint32_t spins, double yield_seconds, double timeout_seconds,
             double crowd_seconds, int pin_core, uint32_t ranks_per_core) {
            const auto nanoseconds = [](double seconds) { return static_cast<int64_t>(seconds * 1e9); };
            self.executor.set_workers(workers);
            self.executor.pin_core = pin_core;
            self.executor.ranks_per_core = std::max(ranks_per_core, 1u);
            self.executor.policy = {spins, nanoseconds(yield_seconds), nanoseconds(timeout_seconds),
                                    nanoseconds(crowd_seconds)};
          },
          nb::kw_only(), "workers"_a, "spins"_a, "yield_seconds"_a, "timeout_seconds"_a, "crowd_seconds"_a,
          "pin_core"_a, "ranks_per_core"_a)
      .def(
          "records", [](const Member& self) { return self.flights.latest(); }, "The latest calls, the oldest first.")
      .def(
          "failure", [](const Member& self) { return give_failure(self.endpoint.failure()); },
          nb::sig("def failure(self) -> RunFailure | None"))
      .def(
          "fail",
          [](Member& self, const Failure& failure) {
            Failure first;
            {
              const nb::gil_scoped_release unlocked;
              first = self.fail(failure);
            }
            return give_failure(first);
          },
          "failure"_a, nb::sig("def fail(self, failure: RunFailure) -> RunFailure"),
          "Ends the communicator; the first failure wins and is returned.")
      .def(
          "check",
          [](Member& self, const std::vector<uint32_t>& peers) {
            Failure failure;
            {
              const nb::gil_scoped_release unlocked;
              failure = self.check(peers);
            }
            return give_failure(failure);
          },
          "peers"_a, nb::sig("def check(self, peers: Sequence[int]) -> RunFailure | None"))
      .def(
          "finish_queued", [](Member& self) { self.progress.close(); }, nb::call_guard<nb::gil_scoped_release>(),
          "Waits for the calls that were started, and ends the thread that runs them.")
      .def("leave", &Member::leave, nb::call_guard<nb::gil_scoped_release>());
}

void bind_call(nb::module_& module) {
  nb::class_<CallShape>(module, "CallShape", "How a call's data is cut, and what tells calls apart.")
      .def(
          "__init__",
          [](CallShape* self, runtime::ElementType type, runtime::Operator op, uint64_t elements,
             uint64_t divide_elements, uint32_t message_bytes, uint64_t content, const std::string& description,
             std::vector<uint64_t> input_lengths, std::vector<uint64_t> output_lengths) {
            new (self) CallShape{type,
                                 op,
                                 elements,
                                 divide_elements,
                                 message_bytes,
                                 content,
                                 std::make_shared<std::string>(description),
                                 std::move(input_lengths),
                                 std::move(output_lengths)};
          },
          nb::kw_only(), "type"_a, "op"_a, "elements"_a, "divide_elements"_a, "message_bytes"_a, "content"_a,
          "description"_a, "input_lengths"_a, "output_lengths"_a);
  nb::class_<CallMemory>(module, "CallMemory", "The memory of a call, and how input and output lie to each other.")
      .def(nb::init<size_t, size_t, std::optional<int64_t>>(), nb::kw_only(), "input_bytes"_a, "output_bytes"_a,
           "window"_a.none(), "In place, `window` is the input's address less the output's.");
  nb::class_<PreparedCall>(module, "Call", "A part of a plan and a call's shape, to be run as often as wanted.")
      .def(
          "__init__",
          [](PreparedCall* self, Member& endpoint, const Part& part, const CallShape& shape, const CallMemory& memory) {
            new (self) PreparedCall{&endpoint, &part, shape, memory};
          },
          "endpoint"_a, "part"_a, "shape"_a, "memory"_a, nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
      // Small calls take about a microsecond. nanobind calls a function without named arguments on a shorter path.
      .def("run", &run_on_buffers, nb::sig("def run(self, input: object, output: object, /) -> RunFailure | None"))
      .def(
          "run_at",
          [](const PreparedCall& self, uintptr_t input, uintptr_t output) {
            return run(self, at(input), at(output), nullptr);
          },
          nb::sig("def run_at(self, input: int, output: int, /) -> RunFailure | None"))
      .def(
          "start_at",
          [](const PreparedCall& self, uintptr_t input, uintptr_t output, nb::object owner) {
            return StartedCall(self.start(at(input), at(output)), std::move(owner));
          },
          nb::sig("def start_at(self, input: int, output: int, owner: object, /) -> StartedCall"),
          "Queues the call. `owner` keeps this call and its memory; it is held until the call has ended.")
      .def(
          "trace_at",
          [](const PreparedCall& self, uintptr_t input, uintptr_t output) {
            std::vector<TraceEvent> events;
            nb::object failure = run(self, at(input), at(output), &events);
            return std::pair(failure, give_rows(std::move(events)));
          },
          nb::sig("def trace_at(self, input: int, output: int, /) -> "
                  "tuple[RunFailure | None, NDArray[numpy.uint8]]"));
}

}  // namespace

void bind_runtime(nb::module_& module) {
  bind_part(module);
  bind_failures(module);
  bind_endpoint(module);
  bind_started_call(module);
  bind_call(module);
}

}  // namespace hemiola::bindings
