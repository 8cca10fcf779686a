#include "runtime/executor.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "enforce.h"
#include "runtime/cache_size.h"
#include "runtime/core_pin.h"
#include "runtime/geometry.h"
#include "runtime/run.h"
#include "runtime/worker_pool.h"

namespace hemiola::runtime {

namespace {

constexpr uint64_t kLeastPinnedBytes = 1 << 20;  // below, moving to the core costs more than it brings

// With lengths, every step must find what it writes as long as what it reads; messages are checked as they come.
void check_lengths(const Part& part, const CallShape& call) {
  ENFORCE(part.num_chunks[2] == 0 && part.shape.alias_source < 0, "lengths need a plan without scratch, out of place");
  ENFORCE(call.input_lengths.size() == part.num_chunks[0] && call.output_lengths.size() == part.num_chunks[1]);
  const std::vector<uint64_t>* lengths[] = {&call.input_lengths, &call.output_lengths};
  for (const PartStep& step : part.steps)
    if (traits(step.opcode).reads_source && traits(step.opcode).writes_destination)
      for (uint32_t k = 0; k < step.count; ++k)
        ENFORCE(lengths[step.src_buffer]->at(step.src_index + k) == lengths[step.dst_buffer]->at(step.dst_index + k),
                "a step copies between chunks of different lengths");
}

std::byte* at_least(Mapping& memory, uint64_t num_bytes) {
  if (memory.size() < num_bytes) memory = Mapping(num_bytes);
  return memory.data();
}

}  // namespace

Executor::Executor(Endpoint& endpoint) : endpoint_(endpoint), notes_(std::make_unique<RunNotes>()) {}

Executor::~Executor() {
  if (endpoint_.is_forked()) pool_.release();  // NOLINT(bugprone-unused-return-value): its threads are the parent's
}

void Executor::set_workers(uint32_t workers) {
  workers_ = std::max(workers, 1u);
  pool_.reset();
}

// The payload offsets of all ranks that share a core rotate over twice the caches of that core, together.
size_t Executor::message_span(const Part& part) const {
  return 2 * private_cache_bytes() / ranks_per_core / std::max<size_t>(part.sends.size(), 1);
}

Failure Executor::run(const Part& part, const CallShape& call, std::byte* input, std::byte* output,
                      std::vector<TraceEvent>* trace, const Attention* attention) {
  if (!endpoint_.is_usable())
    return {FailureKind::internal, static_cast<int32_t>(endpoint_.rank()),
            endpoint_.is_forked() ? "this communicator belongs to the parent process; make a new one after the fork"
                                  : "this communicator is closed"};
  if (Failure failure = endpoint_.failure()) return endpoint_.fail(failure);
  endpoint_.take_offered();
  // Evidence of who is late must be there well before the time is over.
  endpoint_.set_stale(std::clamp<int64_t>(policy.timeout_nanoseconds / 2, 100'000'000, 1'000'000'000));
  const RanksOn ranks_on = locate_ranks(endpoint_.num_ranks(), endpoint_.num_local_ranks(), ranks_per_core);
  const Geometry geometry(part, call, endpoint_.shape().slot_bytes, ranks_on);
  // Without any data nothing is sent, and a peer that has left does not matter.
  if (geometry.num_tiles() > 0)
    if (Failure failure = endpoint_.failure_before(part.sends)) return endpoint_.fail(failure);
  const uint64_t signature = endpoint_.begin_call(call.content, *call.description);
  const auto workers = std::max(1u, std::min(workers_, static_cast<uint32_t>(part.blocks.size())));
  Run run(endpoint_, policy, interrupted, part, call, signature, geometry, workers, message_span(part), *notes_, trace,
          attention);

  if (Geometry::has_lengths(call)) check_lengths(part, call);
  StepBytes& bytes = run.bytes();
  const uint64_t size = geometry.element_bytes();
  bytes.bases[0][0] = input;
  bytes.bases[0][1] = output;
  bytes.bases[0][2] = at_least(scratch_, part.num_chunks[2] * geometry.chunk() * size);
  const int32_t alias = part.shape.alias_source;
  if (geometry.remainder() > 0) {
    const uint64_t chunk_bytes = geometry.remainder() * size;
    const uint64_t total = uint64_t{part.num_chunks[0]} + part.num_chunks[1] + part.num_chunks[2];
    std::byte* padded = at_least(remainder_, total * chunk_bytes);
    if (total > 0) std::memset(padded, 0, total * chunk_bytes);
    for (size_t buffer = 0; buffer < 3; ++buffer) {
      bytes.bases[1][buffer] = padded;
      if (buffer < 2) geometry.copy_remainder(bytes.bases[0][buffer], padded, part.num_chunks[buffer], false);
      padded += part.num_chunks[buffer] * chunk_bytes;
    }
    if (alias >= 0) bytes.bases[1][alias] = bytes.bases[1][1 - alias] + part.shape.alias_offset * chunk_bytes;
  }

  std::optional<CorePin> pin;
  // A queued call keeps off cores that compute, wherever the scheduler finds others.
  if (workers_ == 1 && attention == nullptr && bytes.num_bytes() >= kLeastPinnedBytes) pin.emplace(pin_core);
  if (workers > 1) {
    if (!pool_) pool_ = std::make_unique<WorkerPool>(workers_ - 1);
    pool_->run([&](uint32_t worker) {
      if (worker < workers) run.work(worker);
    });
  } else {
    run.work(0);
  }
  pin.reset();
  endpoint_.end_call();
  if (run.failed()) return endpoint_.fail(endpoint_.failure());

  if (geometry.remainder() > 0) {
    const size_t stored = alias == 1 ? 0 : 1;  // where the output lies
    geometry.copy_remainder(bytes.bases[0][stored], bytes.bases[1][stored], part.num_chunks[stored], true);
  }
  if (call.divide_elements > 0)
    kernels(call.type, call.op).divide(output, call.divide_elements, static_cast<int64_t>(endpoint_.num_ranks()));
  return {};
}

}  // namespace hemiola::runtime
