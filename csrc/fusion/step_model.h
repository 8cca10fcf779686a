// The time of a training step: groups of operators on a compute stream, buckets of gradients on a communication stream.
//
// Both streams take their items in a fixed order. A step has, on the compute stream, its groups and then the optimizer
// of every message; on the communication stream the messages of the buckets (all-reduce or reduce-scatter), and then
// the all-gathers of split buckets, which go on during the next step's groups. An item waits for at most one item of
// the other stream, so what is done of each stream is a number, and a step is simulated in one walk over both.
// While both streams are busy they share the core: a message that needs the share u of it leaves 1 - u to
// computation; where it needs more than half, both have half, and the message takes longer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fusion/price_table.h"

namespace hemiola::fusion {

struct StepCosts {
  PriceTable allreduce, reduce_scatter, all_gather;
  double contention = 0;      // core seconds of a byte that an all-reduce carries; half of it for its two halves
  double copy = 0;            // seconds of a byte that is copied into a bucket
  double call = 0;            // seconds of the compute stream to start a message
  double optimizer = 0;       // seconds of a byte of parameters
  double optimizer_call = 0;  // seconds to start the optimizer on a message's parameters
  double shard = 1;           // the part of a split bucket that one worker's optimizer updates
};

// Groups in the order in which they run, and gradients as the graph numbers them.
struct Groups {
  std::span<const double> seconds;
  std::span<const int32_t> ready;  // of each gradient: the group that makes it
  std::span<const int32_t> read;   // of each gradient: the first group that reads its parameter
};

struct Buckets {
  std::span<const int32_t> first;      // of each bucket, its first place in `gradients`; one more at the end
  std::span<const int32_t> gradients;  // in the order in which they lie in the bucket's memory
  std::span<const uint8_t> split;
  std::span<const int32_t> parts;

  size_t size() const { return parts.size(); }
};

enum class MessageKind : uint8_t { allreduce, reduce_scatter, all_gather };

struct Message {
  double seconds;
  double share;  // of the core, while it is under way
  double bytes;
  int32_t release;  // the task whose end lets it begin
  int32_t bucket;
  int32_t part;
  MessageKind kind;
};

struct Task {
  double seconds;
  int32_t wait;  // a message that must have ended, or kNone
  bool of_previous_step;
};

inline constexpr int32_t kNone = -1;

struct Span {
  double begin, end;
};

struct StepResult {
  double seconds = 0;        // from step to step, in the steady state
  double compute = 0;        // of groups, copies, calls and the optimizer, were they alone
  double communication = 0;  // of all messages, were they alone
  double exposed = 0;        // the compute stream waits for messages
  double contended = 0;      // the compute stream is slower because of messages
  std::vector<Message> messages;
  std::vector<Span> tasks;          // of the last step, from its begin; groups, then optimizers
  std::vector<Span> message_spans;  // likewise; all-gathers end in the next step
};

struct Merged {
  double seconds = 0;          // when the last optimizer ends
  std::vector<int32_t> first;  // of each bucket, its first gradient; one more at the end
};

// Buckets of neighbours in the order in which groups make gradients, all of them all-reduced.
struct MergedStep {
  double seconds = 0;
  std::vector<int32_t> first, gradients;  // as in Buckets
};

class StepModel {
 public:
  StepModel(StepCosts costs, std::vector<double> gradient_bytes)
      : costs_(std::move(costs)), bytes_(std::move(gradient_bytes)) {}

  // The steady state of a plan; the times of every item only if asked for.
  StepResult evaluate(const Groups& groups, const Buckets& buckets, bool record) const;

  // The fastest cut of a row of gradients into buckets of neighbours, without contention: each is ready at a time
  // that does not fall along the row, buckets are all-reduced one after another, and the optimizer of each runs
  // when it is there and all groups have ended.
  Merged merge(std::span<const double> ready, std::span<const double> bytes, double groups_end) const;

  // The buckets that `merge` finds for groups. With contention or calls the times at which gradients are ready depend
  // on the buckets, so they are taken from the step that was found, a few times, and the best is kept. Gradients of one
  // group stay together unless `apart`.
  MergedStep merge_step(const Groups& groups, bool apart) const;

  const std::vector<double>& gradient_bytes() const { return bytes_; }
  const StepCosts& costs() const { return costs_; }

 private:
  StepCosts costs_;
  std::vector<double> bytes_;
};

}  // namespace hemiola::fusion
