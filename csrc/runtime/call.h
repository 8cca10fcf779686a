// One call of a collective: how its data is cut, how ranks wait in it, and what is noted of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/kernels.h"

namespace hemiola::runtime {

// How a call's data is cut. `elements` is the length of one share (shape.block_chunks chunks); it need not
// divide evenly. With lengths, every stored chunk of input and output has its own instead.
struct CallShape {
  ElementType type = ElementType::f32;
  Operator op = Operator::sum;
  uint64_t elements = 0;
  uint64_t divide_elements = 0;  // elements of the output to divide by the number of ranks at the end
  uint32_t message_bytes = 0;    // largest message, at most a slot; 0: as Geometry chooses
  uint64_t content = 0;          // plan, sizes and types as a number: equal on ranks that call the same
  std::shared_ptr<const std::string> description;
  std::vector<uint64_t> input_lengths, output_lengths;
};

#define HEMIOLA_ROWS "runtime/tables.def"
#include "row_structs.inc"

struct WaitPolicy {
  uint32_t spins = 0;             // polls with a pause between them
  int64_t yield_nanoseconds = 0;  // then polls with a yield between them, this long
  int64_t timeout_nanoseconds = 0;
  int64_t crowd_nanoseconds = 50'000;  // a yield that takes longer has let somebody else work: sleep instead
};

}  // namespace hemiola::runtime
