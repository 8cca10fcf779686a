#include <algorithm>
#include <cmath>

#include "enforce.h"
#include "fusion/step_model.h"
#include "fusion/step_program.h"

namespace hemiola::fusion {

namespace {

constexpr int kMostSteps = 48;
constexpr double kSteady = 1e-10;

// Both streams of a program that is repeated. Items are counted from the first step on; the messages of a step
// before it count as ended.
class Streams {
 public:
  explicit Streams(const StepProgram& program)
      : program_(program), num_tasks_(program.tasks.size()), num_messages_(program.messages.size()) {
    messages_done_ = num_messages_;  // of the step before the first
  }

  double now() const { return now_; }
  double exposed() const { return exposed_; }
  double contended() const { return contended_; }

  // How far the communication stream is beyond the messages of the steps that have ended, in messages.
  double progress() const {
    const double begun = message_active_ ? 1 - message_left_ / std::max(current_message().seconds, 1e-300) : 0;
    return static_cast<double>(messages_done_) - static_cast<double>(tasks_done_ / num_tasks_ * num_messages_) + begun;
  }

  void run_until_tasks(uint64_t count) {
    while (tasks_done_ < count) advance();
  }
  void run_until_messages(uint64_t count) {
    while (messages_done_ < count) advance();
  }

  // From now on the begin and the end of every item are kept, from the number of those that are done.
  void record() { recording_ = true; }
  std::vector<Span> task_spans, message_spans;

 private:
  const Task& current_task() const { return program_.tasks[tasks_done_ % num_tasks_]; }
  const Message& current_message() const { return program_.messages[messages_done_ % num_messages_]; }

  bool task_may_begin() const {
    const Task& task = current_task();
    if (task.wait == kNone) return true;
    const uint64_t step = tasks_done_ / num_tasks_ + (task.of_previous_step ? 0 : 1);
    return messages_done_ > step * num_messages_ + static_cast<uint64_t>(task.wait);
  }
  bool message_may_begin() const {
    if (num_messages_ == 0) return false;
    const uint64_t step = messages_done_ / num_messages_ - 1;
    return tasks_done_ > step * num_tasks_ + static_cast<uint64_t>(current_message().release);
  }

  void begin_items() {
    if (!task_active_ && task_may_begin()) {
      task_active_ = true;
      task_left_ = current_task().seconds;
      if (recording_) task_spans.push_back({now_, 0});
    }
    if (!message_active_ && message_may_begin()) {
      message_active_ = true;
      message_left_ = current_message().seconds;
      if (recording_) message_spans.push_back({now_, 0});
    }
  }

  // To the next end of an item.
  void advance() {
    begin_items();
    ENFORCE(task_active_ || message_active_, "both streams wait for each other");
    double task_rate = 1, message_rate = 1;
    if (task_active_ && message_active_) {
      const double share = current_message().share;
      task_rate = 1 - std::min(share, 0.5);
      message_rate = share > 0.5 ? 0.5 / share : 1;
    }
    const double task_seconds = task_active_ ? task_left_ / task_rate : INFINITY;
    const double message_seconds = message_active_ ? message_left_ / message_rate : INFINITY;
    const double seconds = std::min(task_seconds, message_seconds);
    now_ += seconds;
    if (task_active_)
      contended_ += seconds * (1 - task_rate);
    else
      exposed_ += seconds;
    if (task_active_) task_left_ = task_seconds <= seconds ? 0 : task_left_ - seconds * task_rate;
    if (message_active_) message_left_ = message_seconds <= seconds ? 0 : message_left_ - seconds * message_rate;
    if (task_active_ && task_seconds <= seconds) end_task();
    if (message_active_ && message_seconds <= seconds) end_message();
  }

  void end_task() {
    task_active_ = false;
    ++tasks_done_;
    if (recording_ && !task_spans.empty()) task_spans.back().end = now_;
  }
  void end_message() {
    message_active_ = false;
    ++messages_done_;
    if (recording_ && !message_spans.empty()) message_spans.back().end = now_;
  }

  const StepProgram& program_;
  const uint64_t num_tasks_, num_messages_;
  uint64_t tasks_done_ = 0, messages_done_ = 0;
  bool task_active_ = false, message_active_ = false, recording_ = false;
  double now_ = 0, task_left_ = 0, message_left_ = 0, exposed_ = 0, contended_ = 0;
};

struct Steady {
  double seconds, exposed, contended;
  int num_steps;
};

// Steps until one begins as the one before it did. Where that never happens the later half of many is averaged.
Steady steady_state(const StepProgram& program) {
  Streams streams(program);
  const uint64_t num_tasks = program.tasks.size();
  struct Mark {
    double now, exposed, contended, progress;
  };
  std::vector<Mark> marks{{0, 0, 0, static_cast<double>(program.messages.size())}};
  const auto between = [&](size_t first, size_t last) {
    const double steps = static_cast<double>(last - first);
    return Steady{(marks[last].now - marks[first].now) / steps, (marks[last].exposed - marks[first].exposed) / steps,
                  (marks[last].contended - marks[first].contended) / steps, static_cast<int>(last)};
  };
  for (int step = 1; step <= kMostSteps; ++step) {
    streams.run_until_tasks(num_tasks * static_cast<uint64_t>(step));
    marks.push_back({streams.now(), streams.exposed(), streams.contended(), streams.progress()});
    const size_t last = marks.size() - 1;
    const bool alike = std::abs(marks[last].progress - marks[last - 1].progress) <= kSteady;
    if (!program.has_split || (alike && step > 1)) return between(last - 1, last);
  }
  return between(kMostSteps / 2, kMostSteps);
}

void record_step(const StepProgram& program, int num_steps, StepResult& result) {
  Streams streams(program);
  const uint64_t num_tasks = program.tasks.size(), num_messages = program.messages.size();
  const uint64_t before = static_cast<uint64_t>(num_steps - 1);
  streams.record();
  streams.run_until_tasks(num_tasks * (before + 1));
  const double begin = before == 0 ? 0 : streams.task_spans[num_tasks * before - 1].end;
  if (num_messages > 0) streams.run_until_messages(num_messages * (before + 2));
  const auto shifted = [&](const std::vector<Span>& spans, uint64_t first, uint64_t count) {
    std::vector<Span> found(spans.begin() + static_cast<int64_t>(first),
                            spans.begin() + static_cast<int64_t>(first + count));
    for (Span& span : found) span = {span.begin - begin, span.end - begin};
    return found;
  };
  result.tasks = shifted(streams.task_spans, num_tasks * before, num_tasks);
  result.message_spans = shifted(streams.message_spans, num_messages * before, num_messages);
}

}  // namespace

StepResult StepModel::evaluate(const Groups& groups, const Buckets& buckets, bool record) const {
  StepProgram program = step_program(costs_, bytes_, groups, buckets, record);
  const Steady steady = steady_state(program);
  StepResult result;
  result.seconds = steady.seconds;
  result.exposed = steady.exposed;
  result.contended = steady.contended;
  for (const Task& task : program.tasks) result.compute += task.seconds;
  for (const Message& message : program.messages) result.communication += message.seconds;
  if (record) {
    record_step(program, steady.num_steps, result);
    result.messages = std::move(program.messages);
  }
  return result;
}

}  // namespace hemiola::fusion
