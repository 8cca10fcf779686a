// Runs one rank's part of a plan on real data.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/endpoint.h"
#include "runtime/kernels.h"
#include "runtime/part.h"
#include "runtime/slot_writing.h"

namespace hemiola::runtime {

class WorkerPool;

// How a call's data is cut. `elements` is the length of one share (shape.block_chunks chunks); it need not
// divide evenly. With lengths, every stored chunk of input and output has its own instead.
struct CallShape {
  ElementType type = ElementType::f32;
  Operator op = Operator::sum;
  uint64_t elements = 0;
  uint64_t divide_elements = 0;  // elements of the output to divide by the number of ranks at the end
  uint32_t message_bytes = 0;    // largest message, at most a slot; 0: the whole slot
  uint64_t content = 0;          // plan, sizes and types as a number: equal on ranks that call the same
  std::shared_ptr<const std::string> description;
  std::vector<uint64_t> input_lengths, output_lengths;
};

// One step of one tile as it really happened; times are monotonic nanoseconds.
struct TraceEvent {
  uint32_t threadblock, step, tile, reserved;
  int64_t begin, end;
  uint64_t num_bytes;
};
static_assert(sizeof(TraceEvent) == 40);

struct WaitPolicy {
  uint32_t spins = 0;         // looks with a pause between them
  int64_t yield_nanoseconds = 0;  // then looks with a yield between them, this long
  int64_t timeout_nanoseconds = 0;
  int64_t crowd_nanoseconds = 50'000;  // a yield that takes longer has let somebody else work: sleep instead
};

// Beyond this the data of all ranks of a host does not stay in its caches.
uint64_t cache_bytes();

class Executor {
 public:
  explicit Executor(Endpoint& endpoint);
  ~Executor();

  // Threads that step the threadblocks of a run, the calling one among them.
  void set_workers(uint32_t workers);

  WaitPolicy policy;
  // Asked now and then while waiting; true ends the run.
  std::function<bool()> interrupted;

  // Input and output as the collective has them; nothing is copied that the plan does not copy, except the last
  // elements of a share that do not fill all chunks.
  Failure run(const Part& part, const CallShape& call, std::byte* input, std::byte* output,
              std::vector<TraceEvent>* trace);

 private:
  Endpoint& endpoint_;
  SlotWriting slots_;
  uint32_t workers_ = 1;
  std::unique_ptr<WorkerPool> pool_;
  Mapping scratch_, rest_;
};

}  // namespace hemiola::runtime
