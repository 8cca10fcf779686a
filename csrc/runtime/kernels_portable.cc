// The kernels for every processor of the architecture: SSE2 on x86-64, NEON on AArch64.
#define HEMIOLA_KERNELS portable
#include "runtime/kernels_body.h"
