// StepProgram: what the two streams do in one step, item by item.
#pragma once

#include <vector>

#include "fusion/step_model.h"

namespace hemiola::fusion {

struct StepProgram {
  std::vector<Task> tasks;        // groups, then optimizers
  std::vector<Message> messages;  // all-reduces and reduce-scatters in the order of buckets, then all-gathers
  bool has_split = false;
};

// With `whole` every group is a task; without, groups between which nothing waits or is released are one.
StepProgram step_program(const StepCosts& costs, const std::vector<double>& gradient_bytes, const Groups& groups,
                         const Buckets& buckets, bool whole);

}  // namespace hemiola::fusion
