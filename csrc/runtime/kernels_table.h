// The kernels are built more than once, for different instruction sets; each build is one table.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/kernels.h"

namespace hemiola::runtime {

struct KernelTable {
  const char* name;
  Kernels kernels[kNumTypes][kNumOperators];
  void (*copy)(void* out, const void* in, size_t num_bytes, bool stream);
  void (*copy_both)(void* out, void* also, const void* in, size_t num_bytes, Stream stream);
  void (*exchange)(void* out, void* buffer, const void* source, size_t num_bytes);
};

namespace portable {
extern const KernelTable table;
}
namespace avx2 {
extern const KernelTable table;
}

// The builds that run on this processor, the fastest first. All of them give the same bits.
std::span<const KernelTable* const> kernel_tables();

}  // namespace hemiola::runtime
