// A member of a communicator: a rank's endpoint with its executor, its flight recorder and its progress thread.
// Whatever threads use it, what moves its queues and links happens one after another.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/call_memory.h"
#include "runtime/clock.h"
#include "runtime/endpoint.h"
#include "runtime/executor.h"
#include "runtime/flight_recorder.h"
#include "runtime/progress_thread.h"

namespace hemiola::runtime {

class Member {
 public:
  Member(uint32_t rank, uint32_t num_ranks, QueueShape shape) : endpoint(rank, num_ranks, shape), executor(endpoint) {}

  Failure run(const Part& part, const CallShape& call, std::byte* input, std::byte* output,
              std::vector<TraceEvent>* trace, const Attention* attention = nullptr) {
    const std::lock_guard lock(running_);
    const uint64_t number = flights.begin({endpoint.call() + 1, now(), std::nullopt, call.description});
    Failure failure = executor.run(part, call, input, output, trace, attention);
    if (!failure) flights.end(number, now());
    return failure;
  }

  // Ends the communicator; the first failure wins and is returned.
  Failure fail(const Failure& failure) {
    const std::lock_guard lock(running_);
    return endpoint.fail(failure);
  }

  // What is wrong with peers that are waited for outside a call. Nothing while a call runs, which checks for itself.
  Failure check(const std::vector<uint32_t>& peers) {
    const std::unique_lock lock(running_, std::try_to_lock);
    if (!lock) return {};
    endpoint.pump();
    const PeerCheck check = endpoint.check_peers(peers);
    if (!check.certain && !check.maybe) return {};
    return endpoint.fail(check.certain ? check.certain : check.maybe);
  }

  void leave() {
    const std::lock_guard lock(running_);
    endpoint.leave();
  }

  Endpoint endpoint;
  Executor executor;
  FlightRecorder flights;

 private:
  std::mutex running_;

 public:
  ProgressThread progress;  // ends first, because it uses all of the above
};

// One rank's part of a plan together with the shape of a call, ready to run as often as wanted.
struct PreparedCall {
  Member* member;
  const Part* part;
  CallShape shape;
  CallMemory memory;

  Failure run(std::byte* input, std::byte* output, std::vector<TraceEvent>* trace) const {
    memory.check(input, output);
    return member->run(*part, shape, input, output, trace);
  }

  // Queues the call. This value and the memory must stay until it is done.
  std::shared_ptr<QueuedCall> start(std::byte* input, std::byte* output) const {
    memory.check(input, output);
    return member->progress.put([this, input, output](const Attention& attention) {
      try {
        return member->run(*part, shape, input, output, nullptr, &attention);
      } catch (const std::exception& error) {  // the others must hear that this rank gives up
        return member->fail({FailureKind::internal, static_cast<int32_t>(member->endpoint.rank()), error.what()});
      }
    });
  }
};

}  // namespace hemiola::runtime
