// The kernels for x86-64 with AVX2 and F16C; CMakeLists.txt gives the flags.
#define HEMIOLA_KERNELS avx2
#include "runtime/kernels_body.h"
