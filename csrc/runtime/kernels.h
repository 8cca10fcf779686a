// What happens to bytes: copies and reductions for every element type and operator.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hemiola::runtime {

enum class ElementType : uint8_t {
#define ELEMENT_TYPE(name, ...) name,
#include "runtime/element_types.def"
#undef ELEMENT_TYPE
};
enum class Operator : uint8_t {
#define OPERATOR(name, ...) name,
#include "runtime/operators.def"
#undef OPERATOR
};

inline constexpr size_t kElementSizes[] = {
#define ELEMENT_TYPE(name, python_name, num_bytes, ...) num_bytes,
#include "runtime/element_types.def"
#undef ELEMENT_TYPE
};
inline constexpr size_t kNumTypes = sizeof(kElementSizes) / sizeof(size_t);
inline constexpr size_t kNumOperators = 0
#define OPERATOR(name, ...) +1
#include "runtime/operators.def"
#undef OPERATOR
    ;

constexpr size_t element_size(ElementType type) { return kElementSizes[static_cast<size_t>(type)]; }

// out[i] = a[i] op b[i], the same bits for (a, b) as for (b, a) and on every processor: f16 and bf16 are
// rounded once, to nearest; -0 is less than +0; every NaN becomes one NaN; integers wrap around. An output is
// disjoint from an input or equal to it. Nothing is aligned beyond what the caller happens to have. `stream`
// says that `out` will not be read again soon by this core: large outputs that are no inputs then bypass the caches.
// reduce_both writes the result to two places.
enum class Stream : uint8_t { none, out, also, both };

constexpr Stream stream_of(bool out, bool also) {
  return out && also ? Stream::both : out ? Stream::out : also ? Stream::also : Stream::none;
}

struct Kernels {
  void (*reduce)(void* out, const void* a, const void* b, size_t count, bool stream);
  void (*reduce_both)(void* out, void* also, const void* a, const void* b, size_t count, Stream stream);
  // data[i] /= divisor, a number of at least 1: rounded to nearest for floating types (once, where the divisor
  // is at most 4096), towards zero for integers.
  void (*divide)(void* data, size_t count, int64_t divisor);
};
const Kernels& kernels(ElementType type, Operator op);

void copy(void* out, const void* in, size_t num_bytes, bool stream);
void copy_both(void* out, void* also, const void* in, size_t num_bytes, Stream stream);
// out = buffer and buffer = source in one sweep; all three are disjoint.
void exchange(void* out, void* buffer, const void* source, size_t num_bytes);

}  // namespace hemiola::runtime
