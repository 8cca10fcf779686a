// The only file that knows nanobind: it gives the C++ core to Python as `hemiola._core`.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "enforce.h"
#include "lab/delay_line.h"
#include "passes/passes.h"
#include "proof/promises.h"
#include "runtime/clock.h"
#include "runtime/endpoint.h"
#include "runtime/cache_size.h"
#include "runtime/executor.h"
#include "runtime/kernels.h"
#include "runtime/part.h"
#include "simulator/simulator.h"
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
  for (const BlockedStep& b : cycle) list.append(nb::make_tuple(b.step, b.block, static_cast<uint32_t>(b.kind), b.awaited_block));
  return list;
}

nb::dict give_proof(const Proof& proof) {
  nb::dict result;
  nb::list faults, races;
  for (const ConnectionFault& f : proof.connection_faults)
    faults.append(nb::make_tuple(static_cast<uint32_t>(f.kind), f.block, f.other_block, f.step, f.other_step));
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
    const PlacedPlan plan{{rows<Rank>(ranks), rows<Threadblock>(threadblocks), rows<Step>(steps),
                           rows<Dependency>(dependencies)}, &layout, alias_source, alias_target, column(alias_offset)};
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

// The memory of any object with the buffer protocol, without a copy.
class View {
 public:
  View(nb::handle object, bool writable) {
    if (PyObject_GetBuffer(object.ptr(), &view_, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  ~View() { PyBuffer_Release(&view_); }
  View(View&& other) noexcept : view_(std::exchange(other.view_, Py_buffer{})) {}
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  View& operator=(View&&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(view_.buf); }
  size_t size() const { return static_cast<size_t>(view_.len); }

 private:
  Py_buffer view_;
};

// Address, bytes, DLPack's type code and bits, and whether the elements follow each other, of any array on the CPU.
template <typename Array>
nb::tuple describe(const Array& array) {
  bool in_order = true;
  int64_t stride = 1;
  for (size_t k = array.ndim(); k-- > 0;) {
    in_order &= array.shape(k) == 1 || array.size() == 0 || array.stride(k) == stride;
    stride *= static_cast<int64_t>(array.shape(k));
  }
  return nb::make_tuple(reinterpret_cast<uintptr_t>(array.data()), array.nbytes(), array.dtype().code,
                        array.dtype().bits, in_order);
}

// An endpoint with its executor; runs of one endpoint happen one after another.
struct Member {
  Member(uint32_t rank, uint32_t num_ranks, runtime::QueueShape shape)
      : endpoint(rank, num_ranks, shape), executor(endpoint) {
    executor.interrupted = [] {
      const nb::gil_scoped_acquire lock;
      return PyErr_CheckSignals() != 0;
    };
  }

  // The flight recorder: the latest calls, what they were and when.
  struct Record {
    uint64_t call = 0;
    int64_t begin = 0, end = 0;  // monotonic nanoseconds; an end of 0: still running, -1: failed
    std::shared_ptr<const std::string> description;
  };

  runtime::Failure run(const runtime::Part& part, const runtime::CallShape& shape, std::byte* input, std::byte* output,
                       std::vector<runtime::TraceEvent>* trace) {
    Record& record = begin_record({endpoint.call() + 1, runtime::now(), 0, shape.description});
    runtime::Failure failure = executor.run(part, shape, input, output, trace);
    const int64_t end = failure ? -1 : runtime::now();
    const std::lock_guard lock(recording);
    record.end = end;
    return failure;
  }

  Record& begin_record(Record record) {
    const std::lock_guard lock(recording);
    return records[num_runs++ % records.size()] = std::move(record);
  }

  runtime::Endpoint endpoint;
  runtime::Executor executor;
  std::mutex running, recording;
  std::array<Record, 64> records;
  uint64_t num_runs = 0;
};

nb::object give_failure(const runtime::Failure& failure) {
  if (!failure) return nb::none();
  if (failure.kind == runtime::FailureKind::interrupted && PyErr_Occurred() != nullptr) throw nb::python_error();
  return nb::make_tuple(static_cast<uint32_t>(failure.kind), failure.rank, failure.text);
}

// One rank's part of a plan together with how the data of a call is cut; runs as often as wanted.
struct Call {
  Member* member;
  const runtime::Part* part;
  runtime::CallShape shape;
  size_t input_bytes, output_bytes;
  std::optional<int64_t> window;  // in place: the input's address less the output's

  runtime::Failure run(std::byte* input, std::byte* output, std::vector<runtime::TraceEvent>* trace) {
    check_places(input, output);
    const nb::gil_scoped_release unlocked;
    const std::lock_guard lock(member->running);
    return member->run(*part, shape, input, output, trace);
  }

 private:
  void check_places(const std::byte* input, const std::byte* output) const {
    if (input_bytes == 0 || output_bytes == 0) return;
    if (window) {
      if (input - output != *window) throw nb::value_error("in place, input and output must be the same memory");
    } else if (input < output + output_bytes && output < input + input_bytes) {
      throw nb::value_error("input and output overlap, but this call is not in place");
    }
  }
};

// The memory of one side of a call; a rank that has no such side may give anything.
std::optional<View> side(nb::handle object, size_t expected, bool writable, const char* what) {
  std::optional<View> view;
  if (expected == 0) return view;
  view.emplace(object, writable);
  if (view->size() != expected) {
    const std::string text = std::string("the ") + what + " has " + std::to_string(view->size()) + " bytes, but " +
                             std::to_string(expected) + " were expected";
    throw nb::value_error(text.c_str());
  }
  return view;
}

nb::object run_on_buffers(Call& call, nb::handle input, nb::handle output) {
  const std::optional<View> out = side(output, call.output_bytes, true, "output");
  if (input.is(output) && call.input_bytes == call.output_bytes && out)
    return give_failure(call.run(out->data(), out->data(), nullptr));
  const std::optional<View> in = side(input, call.input_bytes, false, "input");
  return give_failure(call.run(in ? in->data() : nullptr, out ? out->data() : nullptr, nullptr));
}

std::vector<std::pair<uint32_t, uint32_t>> pairs_of(const std::vector<runtime::Connection>& connections) {
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (const runtime::Connection& c : connections) pairs.emplace_back(c.peer, c.index);
  return pairs;
}

void bind_runtime(nb::module_& module) {
  nb::class_<runtime::Part>(module, "Part")
      .def("__init__",
           [](runtime::Part* self, Bytes ranks, Bytes threadblocks, Bytes steps, Bytes dependencies, uint32_t rank,
              uint32_t block_chunks, int32_t alias_source, uint32_t alias_offset) {
             const PlanView plan{rows<Rank>(ranks), rows<Threadblock>(threadblocks), rows<Step>(steps),
                                            rows<Dependency>(dependencies)};
             new (self) runtime::Part(runtime::take_part(plan, {rank, block_chunks, alias_source, alias_offset}));
           })
      .def_prop_ro("sends", [](const runtime::Part& self) { return pairs_of(self.sends); })
      .def_prop_ro("receives", [](const runtime::Part& self) { return pairs_of(self.receives); })
      .def_ro("max_count", &runtime::Part::max_count);

  nb::class_<Member>(module, "Endpoint")
      .def("__init__",
           [](Member* self, uint32_t rank, uint32_t num_ranks, uint32_t num_slots, uint32_t slot_bytes) {
             new (self) Member(rank, num_ranks, {num_slots, slot_bytes});
           })
      .def_prop_ro("segment", [](const Member& self) { return self.endpoint.segment(); })
      .def_prop_ro("call", [](const Member& self) { return self.endpoint.call(); })
      .def_prop_ro("is_forked", [](const Member& self) { return self.endpoint.is_forked(); })
      .def("join_local", [](Member& self, uint32_t peer, int fd, int pid) { self.endpoint.join_local(peer, fd, pid); })
      .def("set_linking", [](Member& self, int32_t peer) { self.endpoint.set_linking(peer); })
      .def("open_pipe", [](Member& self) { return self.endpoint.open_pipe(); })
      .def("join_pipe", [](Member& self, uint32_t peer, int fd) { self.endpoint.join_pipe(peer, fd); })
      .def("join_socket",
           [](Member& self, uint32_t peer, uint32_t index, int fd) { self.endpoint.join_socket(peer, index, fd); })
      .def("offer_socket",
           [](Member& self, uint32_t peer, uint32_t index, int fd) { self.endpoint.offer_socket(peer, index, fd); })
      .def("is_local", [](const Member& self, uint32_t peer) { return self.endpoint.is_local(peer); })
      .def("has_link",
           [](Member& self, uint32_t peer, uint32_t index) {
             const nb::gil_scoped_release unlocked;
             const std::lock_guard lock(self.running);
             self.endpoint.take_offered();
             return self.endpoint.has_link(peer, index);
           })
      .def("configure",
           [](Member& self, uint32_t workers, uint32_t spins, double yield_seconds, double timeout_seconds,
              double crowd_seconds, int pin_core, uint32_t ranks_per_core) {
             self.executor.set_workers(workers);
             self.executor.pin_core = pin_core;
             self.executor.ranks_per_core = std::max(ranks_per_core, 1u);
             self.executor.policy = {spins, static_cast<int64_t>(yield_seconds * 1e9),
                                     static_cast<int64_t>(timeout_seconds * 1e9),
                                     static_cast<int64_t>(crowd_seconds * 1e9)};
           })
      .def("records",
           [](Member& self) {
             nb::list list;
             const std::lock_guard lock(self.recording);
             const uint64_t size = self.records.size();
             for (uint64_t k = self.num_runs > size ? self.num_runs - size : 0; k < self.num_runs; ++k) {
               const Member::Record& r = self.records[k % size];
               list.append(nb::make_tuple(r.call, r.begin, r.end, *r.description));
             }
             return list;
           })
      .def("failure", [](const Member& self) { return give_failure(self.endpoint.failure()); })
      .def("fail",
           [](Member& self, uint32_t kind, int32_t rank, const std::string& text) {
             runtime::Failure failure{static_cast<runtime::FailureKind>(kind), rank, text};
             {
               const nb::gil_scoped_release unlocked;
               const std::lock_guard lock(self.running);
               failure = self.endpoint.fail(failure);
             }
             return give_failure(failure);
           })
      .def("check",
           [](Member& self, const std::vector<uint32_t>& peers) {
             runtime::Failure failure;
             if (const std::unique_lock lock(self.running, std::try_to_lock); lock) {
               const nb::gil_scoped_release unlocked;
               self.endpoint.pump();
               const runtime::Look look = self.endpoint.look_around(peers);
               if (look.certain || look.maybe) failure = self.endpoint.fail(look.certain ? look.certain : look.maybe);
             }
             return give_failure(failure);
           })
      .def("leave", [](Member& self) {
        const nb::gil_scoped_release unlocked;
        const std::lock_guard lock(self.running);
        self.endpoint.leave();
      });

  nb::class_<Call>(module, "Call")
      .def("__init__",
           [](Call* self, Member& member, const runtime::Part& part, uint32_t type, uint32_t op, uint64_t elements,
              uint64_t divide_elements, uint32_t message_bytes, uint64_t content, const std::string& description,
              size_t input_bytes, size_t output_bytes, std::optional<int64_t> window,
              std::vector<uint64_t> input_lengths, std::vector<uint64_t> output_lengths) {
             ENFORCE(type < runtime::kNumTypes && op < runtime::kNumOperators);
             new (self) Call{&member, &part,
                             {static_cast<runtime::ElementType>(type), static_cast<runtime::Operator>(op), elements,
                              divide_elements, message_bytes, content, std::make_shared<std::string>(description),
                              std::move(input_lengths), std::move(output_lengths)},
                             input_bytes, output_bytes, window};
           },
           "endpoint"_a, "part"_a, "type"_a, "op"_a, "elements"_a, "divide_elements"_a, "message_bytes"_a, "content"_a,
           "description"_a, "input_bytes"_a, "output_bytes"_a, "window"_a.none(), "input_lengths"_a, "output_lengths"_a,
           nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
      .def("run", [](Call& self, nb::handle input, nb::handle output) { return run_on_buffers(self, input, output); })
      .def("run_at",
           [](Call& self, uintptr_t input, uintptr_t output) {
             return give_failure(
                 self.run(reinterpret_cast<std::byte*>(input), reinterpret_cast<std::byte*>(output), nullptr));
           })
      .def("trace_at", [](Call& self, uintptr_t input, uintptr_t output) {
        std::vector<runtime::TraceEvent> events;
        nb::object failure = give_failure(
            self.run(reinterpret_cast<std::byte*>(input), reinterpret_cast<std::byte*>(output), &events));
        return nb::make_tuple(failure, give_rows(std::move(events)));
      });

  module.def("memory", [](nb::handle object, bool writable) {
    if (writable) return describe(nb::cast<nb::ndarray<nb::device::cpu>>(object));
    return describe(nb::cast<nb::ndarray<nb::ro, nb::device::cpu>>(object));
  });

  // For tests and for measuring what this machine can do at best.
  module.def("reduce", [](nb::handle out, nb::handle a, nb::handle b, uint32_t type, uint32_t op, bool stream) {
    ENFORCE(type < runtime::kNumTypes && op < runtime::kNumOperators);
    const View result(out, true), left(a, false), right(b, false);
    ENFORCE(left.size() == result.size() && right.size() == result.size());
    const auto element = static_cast<runtime::ElementType>(type);
    const nb::gil_scoped_release unlocked;
    runtime::kernels(element, static_cast<runtime::Operator>(op))
        .reduce(result.data(), left.data(), right.data(), result.size() / runtime::element_size(element), stream);
  });
  module.def("shared_cache_bytes", &runtime::shared_cache_bytes, "The last cache that cores of this host share.");
  module.def("copy", [](nb::handle out, nb::handle in, bool stream) {
    const View result(out, true), source(in, false);
    ENFORCE(source.size() == result.size());
    const nb::gil_scoped_release unlocked;
    runtime::copy(result.data(), source.data(), result.size(), stream);
  });
}

void bind_lab(nb::module_& module) {
  module.def("carry_frames", [](const std::vector<std::tuple<int, int, double>>& lines, int stop) {
    std::vector<lab::DelayLine> delayed;
    for (const auto& [near, far, seconds] : lines) delayed.push_back({near, far, std::llround(seconds * 1e9)});
    const nb::gil_scoped_release unlocked;
    const lab::DelayCounts counts = lab::carry_frames(delayed, stop);
    return std::pair(counts.carried, counts.lost);
  }, "lines"_a, "stop"_a, "Carries frames between pairs of descriptors, each after its delay, until `stop` can be read.");
}

using JobTables = std::tuple<Bytes, Bytes, Bytes, Bytes, Column<double>, double, double>;

void bind_simulator(nb::module_& module) {
  module.def("simulate", [](const std::vector<JobTables>& given, Column<double> capacities, Column<int64_t> first_hop,
                            Column<int64_t> hops, Column<double> latencies, Column<int32_t> work, uint32_t slots,
                            bool fold, bool record, bool events) {
    std::vector<simulator::Job> jobs;
    for (const auto& [ranks, blocks, steps, dependencies, tile_bytes, step_seconds, bandwidth] : given)
      jobs.push_back({{rows<Rank>(ranks), rows<Threadblock>(blocks), rows<Step>(steps), rows<Dependency>(dependencies)},
                      column(tile_bytes), step_seconds, bandwidth});
    constexpr size_t kColumns = sizeof(simulator::WorkResources) / sizeof(int32_t);
    ENFORCE(work.size() % kColumns == 0);
    const simulator::Setting setting{
        column(capacities), column(first_hop), column(hops), column(latencies),
        {reinterpret_cast<const simulator::WorkResources*>(work.data()), work.size() / kColumns}, slots};
    simulator::Result result;
    {
      const nb::gil_scoped_release unlocked;
      result = simulator::simulate(jobs, setting, {fold, record, events});
    }
    return nb::make_tuple(result.ended, result.seconds, give<double>(std::move(result.block_seconds)),
                          give<uint32_t>(std::move(result.block_class)),
                          give<uint32_t>(std::move(result.resource_class)), result.num_simulated, result.by_events,
                          give_rows(std::move(result.records)), give_rows(std::move(result.path)));
  });
}

}  // namespace

NB_MODULE(_core, module) {
  module.doc() = "The C++ core of Hemiola: the trace of chunk programs, the passes, the proof, the executor and the simulator.";
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
  bind_runtime(module);
  bind_lab(module);
  bind_simulator(module);
}
