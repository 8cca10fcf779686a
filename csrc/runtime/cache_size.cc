#include "runtime/cache_size.h"

#include <unistd.h>

#include <fstream>

namespace hemiola::runtime {

namespace {

constexpr uint64_t kUsualShared = 32 << 20, kUsualPrivate = 1 << 20;

// What sysconf says of a cache that cores share is all that a package has, although its cores share it in parts.
uint64_t find(const char* file, int name, uint64_t usual) {
  uint64_t kilobytes = 0;
  std::ifstream(file) >> kilobytes;
  if (kilobytes > 0) return kilobytes << 10;
  const long told = sysconf(name);
  return told > 0 ? static_cast<uint64_t>(told) : usual;
}

}  // namespace

uint64_t shared_cache_bytes() {
  static const uint64_t size =
      find("/sys/devices/system/cpu/cpu0/cache/index3/size", _SC_LEVEL3_CACHE_SIZE, kUsualShared);
  return size;
}

uint64_t private_cache_bytes() {
  static const uint64_t size =
      find("/sys/devices/system/cpu/cpu0/cache/index2/size", _SC_LEVEL2_CACHE_SIZE, kUsualPrivate);
  return size;
}

}  // namespace hemiola::runtime
