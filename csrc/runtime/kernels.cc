#include "runtime/kernels.h"

#include "runtime/kernels_table.h"

#ifdef HEMIOLA_AVX2
#include <cpuid.h>
#endif

namespace hemiola::runtime {
namespace {

#ifdef HEMIOLA_AVX2
bool has_avx2_and_f16c() {
  __builtin_cpu_init();
  unsigned eax, ebx, ecx, edx;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}
#endif

const KernelTable& fastest() {
  static const KernelTable& table = *kernel_tables().front();
  return table;
}

}  // namespace

std::span<const KernelTable* const> kernel_tables() {
#ifdef HEMIOLA_AVX2
  static constexpr const KernelTable* kTables[] = {&avx2::table, &portable::table};
  return std::span(kTables).subspan(has_avx2_and_f16c() ? 0 : 1);
#else
  static constexpr const KernelTable* kTables[] = {&portable::table};
  return kTables;
#endif
}

const Kernels& kernels(ElementType type, Operator op) {
  return fastest().kernels[static_cast<size_t>(type)][static_cast<size_t>(op)];
}

void copy(void* out, const void* in, size_t num_bytes, bool stream) { fastest().copy(out, in, num_bytes, stream); }

void copy_both(void* out, void* also, const void* in, size_t num_bytes, Stream stream) {
  fastest().copy_both(out, also, in, num_bytes, stream);
}

void exchange(void* out, void* buffer, const void* source, size_t num_bytes) {
  fastest().exchange(out, buffer, source, num_bytes);
}

}  // namespace hemiola::runtime
