// Ranks that share cores keep to one of them for a while, neighbours to the same one; the thread is free again then.
#include "runtime/core_binding.h"

#include "test/check.h"

namespace hemiola::test {
namespace {

using runtime::CoreBinding;

cpu_set_t allowed() {
  cpu_set_t cores;
  CHECK(sched_getaffinity(0, sizeof(cores), &cores) == 0);
  return cores;
}

bool is_same(const cpu_set_t& a, const cpu_set_t& b) { return CPU_EQUAL(&a, &b); }

uint32_t num_cores() {
  const cpu_set_t cores = allowed();
  return static_cast<uint32_t>(CPU_COUNT(&cores));
}

TEST(ranks_with_cores_of_their_own_are_left_alone) {
  const cpu_set_t before = allowed();
  for (uint32_t place = 0; place < num_cores(); ++place) {
    const CoreBinding binding(place, num_cores());
    CHECK(is_same(allowed(), before));
  }
}

TEST(ranks_that_share_cores_are_bound_in_blocks_and_let_go) {
  const cpu_set_t before = allowed();
  const uint32_t cores = num_cores(), each = 3;
  if (cores < 2) return;
  cpu_set_t used;
  CPU_ZERO(&used);
  for (uint32_t core = 0; core < cores; ++core) {
    cpu_set_t of_block{};
    for (uint32_t k = 0; k < each; ++k) {
      const CoreBinding binding(core * each + k, cores * each);
      const cpu_set_t bound = allowed();
      CHECK(CPU_COUNT(&bound) == 1);
      CHECK(k == 0 || is_same(bound, of_block), "neighbours are on different cores");
      of_block = bound;
    }
    CHECK(is_same(allowed(), before), "the thread was not let go");
    CPU_OR(&used, &used, &of_block);
  }
  CHECK(is_same(used, before), "some core has no rank");
}

TEST(a_thread_that_has_one_core_keeps_it) {
  const cpu_set_t before = allowed();
  cpu_set_t one;
  CPU_ZERO(&one);
  size_t last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(last, &before)) --last;
  CPU_SET(last, &one);
  CHECK(sched_setaffinity(0, sizeof(one), &one) == 0);
  {
    const CoreBinding binding(0, 8);
    CHECK(is_same(allowed(), one));
  }
  CHECK(is_same(allowed(), one));
  CHECK(sched_setaffinity(0, sizeof(before), &before) == 0);
}

}  // namespace
}  // namespace hemiola::test
