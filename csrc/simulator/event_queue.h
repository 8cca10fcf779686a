// The next event: at most one for every id, which can be moved; events of one time come in the order of their ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hemiola::simulator {

class EventQueue {
 public:
  explicit EventQueue(size_t num_ids) : place_(num_ids, kAbsent) {}

  bool empty() const { return heap_.empty(); }
  double next_time() const { return heap_[0].time; }
  uint32_t next_id() const { return heap_[0].id; }

  void set(uint32_t id, double time) {
    if (place_[id] == kAbsent) {
      place_[id] = static_cast<uint32_t>(heap_.size());
      heap_.push_back({time, id});
      rise(place_[id]);
      return;
    }
    const uint32_t at = place_[id];
    const bool earlier = time < heap_[at].time;
    heap_[at].time = time;
    if (earlier)
      rise(at);
    else
      sink(at);
  }

  void pop() {
    place_[heap_[0].id] = kAbsent;
    const Event last = heap_.back();
    heap_.pop_back();
    if (heap_.empty()) return;
    heap_[0] = last;
    place_[last.id] = 0;
    sink(0);
  }

 private:
  struct Event {
    double time;
    uint32_t id;
    bool operator<(const Event& other) const { return time != other.time ? time < other.time : id < other.id; }
  };
  static constexpr uint32_t kAbsent = 0xffffffff, kWidth = 4;

  void rise(uint32_t at) {
    const Event event = heap_[at];
    while (at > 0) {
      const uint32_t above = (at - 1) / kWidth;
      if (!(event < heap_[above])) break;
      put(at, heap_[above]);
      at = above;
    }
    put(at, event);
  }

  void sink(uint32_t at) {
    const Event event = heap_[at];
    const auto size = static_cast<uint32_t>(heap_.size());
    for (;;) {
      const uint32_t first = at * kWidth + 1;
      if (first >= size) break;
      uint32_t least = first;
      for (uint32_t k = first + 1; k < first + kWidth && k < size; ++k)
        if (heap_[k] < heap_[least]) least = k;
      if (!(heap_[least] < event)) break;
      put(at, heap_[least]);
      at = least;
    }
    put(at, event);
  }

  void put(uint32_t at, const Event& event) {
    heap_[at] = event;
    place_[event.id] = at;
  }

  std::vector<Event> heap_;
  std::vector<uint32_t> place_;
};

}  // namespace hemiola::simulator
