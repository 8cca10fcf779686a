// Lists: many short lists of values, most of them empty. All entries lie in one pool and cleared ones are used
// again, so an empty list costs four bytes, and filling and clearing one never asks for memory of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hemiola {

template <typename T>
class Lists {
 public:
  explicit Lists(size_t count = 0) : last_(count, kNobody) {}

  bool empty(size_t list) const { return last_[list] == kNobody; }
  const T& back(size_t list) const { return pool_[last_[list]].value; }

  void push_back(size_t list, const T& value) {
    const uint32_t added = take();
    uint32_t& last = last_[list];
    // The last entry points to the first, so that both ends are at hand.
    const uint32_t first = last == kNobody ? added : pool_[last].next;
    pool_[added] = {value, first};
    if (last != kNobody) pool_[last].next = added;
    last = added;
  }

  // Calls visit(value) from the first to the last.
  template <typename Visit>
  void each(size_t list, Visit visit) const {
    if (empty(list)) return;
    uint32_t at = last_[list];
    do {
      at = pool_[at].next;
      visit(pool_[at].value);
    } while (at != last_[list]);
  }

  void clear(size_t list) {
    if (empty(list)) return;
    const uint32_t first = pool_[last_[list]].next;
    pool_[last_[list]].next = free_;
    free_ = first;
    last_[list] = kNobody;
  }

 private:
  static constexpr uint32_t kNobody = 0xffffffff;
  struct Entry {
    T value;
    uint32_t next;
  };

  uint32_t take() {
    if (free_ == kNobody) {
      pool_.push_back({T{}, kNobody});
      return static_cast<uint32_t>(pool_.size()) - 1;
    }
    const uint32_t taken = free_;
    free_ = pool_[taken].next;
    return taken;
  }

  std::vector<uint32_t> last_;
  std::vector<Entry> pool_;
  uint32_t free_ = kNobody;
};

}  // namespace hemiola
