// The last cache that the cores of this host share.
#pragma once

#include <cstdint>

namespace hemiola::runtime {

// Beyond this the data of all ranks of a host does not stay in its caches.
uint64_t cache_bytes();

}  // namespace hemiola::runtime
