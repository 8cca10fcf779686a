// How large the caches of this host are.
#pragma once

#include <cstdint>

namespace hemiola::runtime {

// The last cache, which cores share: beyond this the data of all ranks of a host does not stay in its caches.
uint64_t shared_cache_bytes();

// The last cache that a core has for itself: beyond this it forgets what it read.
uint64_t private_cache_bytes();

}  // namespace hemiola::runtime
