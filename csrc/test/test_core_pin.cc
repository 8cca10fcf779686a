// A pinned thread keeps to one core for a while, and is free again then.
#include "runtime/core_pin.h"

#include "test/check.h"

namespace hemiola::test {
namespace {

using runtime::CorePin;

cpu_set_t allowed() {
  cpu_set_t cores;
  CHECK(sched_getaffinity(0, sizeof(cores), &cores) == 0);
  return cores;
}

void allow(const cpu_set_t& cores) { CHECK(sched_setaffinity(0, sizeof(cores), &cores) == 0); }

bool is_same(const cpu_set_t& a, const cpu_set_t& b) { return CPU_EQUAL(&a, &b); }

cpu_set_t only(size_t core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  return cores;
}

TEST(a_thread_is_on_its_core_and_free_again) {
  const cpu_set_t before = allowed();
  for (size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &before)) continue;
    {
      const CorePin pin(static_cast<int>(core));
      CHECK(is_same(allowed(), only(core)));
    }
    CHECK(is_same(allowed(), before), "the thread was not let go");
  }
}

TEST(no_core_or_a_forbidden_one_changes_nothing) {
  const cpu_set_t before = allowed();
  size_t last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(last, &before)) --last;
  allow(only(last));
  for (const int core : {-1, static_cast<int>(last) + 1, CPU_SETSIZE, 1 << 30}) {
    const CorePin pin(core);
    CHECK(is_same(allowed(), only(last)), "core ", core);
  }
  allow(before);
}

TEST(what_somebody_else_sets_meanwhile_stays) {
  const cpu_set_t before = allowed();
  if (CPU_COUNT(&before) < 2) return;
  size_t first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t others = before;
  CPU_CLR(first, &others);
  {
    const CorePin pin(static_cast<int>(first));
    allow(others);
  }
  CHECK(is_same(allowed(), others));
  allow(before);
}

}  // namespace
}  // namespace hemiola::test
