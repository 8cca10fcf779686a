#include "runtime/cache_size.h"

#include <unistd.h>

#include <fstream>

namespace hemiola::runtime {

namespace {

constexpr uint64_t kUsualBytes = 32 << 20;

}  // namespace

uint64_t cache_bytes() {
  static const uint64_t size = [] {
    // What sysconf says is all that a package has, although its cores share it in parts.
    uint64_t kilobytes = 0;
    std::ifstream("/sys/devices/system/cpu/cpu0/cache/index3/size") >> kilobytes;
    if (kilobytes > 0) return kilobytes << 10;
    const long package = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return package > 0 ? static_cast<uint64_t>(package) : kUsualBytes;
  }();
  return size;
}

}  // namespace hemiola::runtime
