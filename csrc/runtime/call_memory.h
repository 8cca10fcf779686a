// The memory that a call works on: how much, and how input and output lie to each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>

namespace hemiola::runtime {

struct CallMemory {
  size_t input_bytes = 0, output_bytes = 0;
  std::optional<int64_t> window;  // in place: the input's address less the output's

  // Throws std::invalid_argument where input and output overlap otherwise than the plan was proven for.
  void check(const std::byte* input, const std::byte* output) const {
    if (input_bytes == 0 || output_bytes == 0) return;
    if (window) {
      if (input - output != *window) throw std::invalid_argument("in place, input and output must be the same memory");
    } else if (input < output + output_bytes && output < input + input_bytes) {
      throw std::invalid_argument("input and output overlap, but this call is not in place");
    }
  }
};

}  // namespace hemiola::runtime
