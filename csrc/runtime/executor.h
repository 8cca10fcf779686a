// Runs one rank's part of a plan on real data.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/attention.h"
#include "runtime/call.h"
#include "runtime/endpoint.h"
#include "runtime/mapping.h"
#include "runtime/part.h"

namespace hemiola::runtime {

struct RunNotes;
class WorkerPool;

class Executor {
 public:
  explicit Executor(Endpoint& endpoint);
  ~Executor();

  // Threads that step the threadblocks of a run, the calling one among them.
  void set_workers(uint32_t workers);

  WaitPolicy policy;
  // The core to which large runs of one worker keep; -1: none.
  int pin_core = -1;
  // How many ranks of this host take turns on its most crowded core; the same on all of them.
  uint32_t ranks_per_core = 1;
  // Asked now and then by a thread that waits for its own call; true ends the run.
  std::function<bool()> interrupted;

  // Input and output as the collective has them; nothing is copied that the plan does not copy, except the last
  // elements of a share that do not fill all chunks. With `attention` the progress thread runs a queued call: it waits
  // so that a computation on the same core goes on, unless somebody waits for the call.
  Failure run(const Part& part, const CallShape& call, std::byte* input, std::byte* output,
              std::vector<TraceEvent>* trace, const Attention* attention = nullptr);

 private:
  size_t message_span(const Part& part) const;

  Endpoint& endpoint_;
  uint32_t workers_ = 1;
  std::unique_ptr<WorkerPool> pool_;
  std::unique_ptr<RunNotes> notes_;
  Mapping scratch_, remainder_;
};

}  // namespace hemiola::runtime
