// A connection: a ring of slots in memory that both ends see. One thread sends, one receives.
//
// The k-th message (from 1) lies in slot (k - 1) % num_slots; the slot's own number says that it is there, so
// the receiver polls the cache line that it needs anyway. `released` tells the sender how many messages have
// been taken. Fresh memory is zero, which is an empty queue.
//
// A message need not begin where its slot does. Lines that the receiver read a moment ago lie in the caches of its
// core, from where the sender would have to fetch them back; lines that it has forgotten are written several times
// faster. So messages wander: each time round, they lie one place further inside of their slots. And they lie on
// lines as the sender's own data does: most programs lay their buffers alike on all ranks, and then every step finds
// what it reads and writes on the same bytes of lines.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/clock.h"
#include "runtime/reader_distance.h"

namespace hemiola::runtime {

inline constexpr size_t kLine = 64;
inline constexpr size_t kPage = 4096;

struct QueueShape {
  uint32_t num_slots;
  uint32_t slot_bytes;

  // A header, and room for a payload that need not begin a line.
  size_t stride() const { return 2 * kLine + slot_bytes; }
  // Whole pages, so that each end can map a queue on its own.
  size_t num_bytes() const { return (2 * kLine + num_slots * stride() + kPage - 1) / kPage * kPage; }
};

struct alignas(kLine) SlotHeader {
  std::atomic<uint64_t> number;
  uint64_t signature;  // of the call that the message belongs to
  uint32_t num_bytes;
  uint32_t offset;  // of the payload, from where the slot has room for it
};
static_assert(sizeof(SlotHeader) == kLine && std::atomic<uint64_t>::is_always_lock_free);

// Publishing a message, releasing a slot, and the flags of sleepers are sequentially consistent: whoever
// goes to sleep says so first and looks again, whoever publishes publishes first and then looks for sleepers.
class SendEnd {
 public:
  SendEnd() = default;
  SendEnd(std::byte* memory, QueueShape shape) : memory_(memory), shape_(shape), next_look_(shape.num_slots) {}

  // How much of every slot messages wander over.
  void set_span(size_t num_bytes) { span_ = std::min<size_t>(num_bytes, shape_.slot_bytes); }

  // Where the next message goes, or nothing while every slot is taken: on the same byte of a line as `like`. One of
  // unknown length begins with its slot.
  std::byte* acquire(size_t num_bytes = 0, const std::byte* like = nullptr) {
    if (sent_ - released_ >= shape_.num_slots) {
      released_ = released().load(std::memory_order_seq_cst);
      if (sent_ - released_ >= shape_.num_slots) return nullptr;
    }
    if (sent_ >= next_look_) feel_distance();
    offset_ = place(num_bytes) + reinterpret_cast<uintptr_t>(like) % kLine;
    return reinterpret_cast<std::byte*>(&slot() + 1) + offset_;
  }

  void publish(uint64_t signature, uint32_t num_bytes) {
    SlotHeader& header = slot();
    header.signature = signature;
    header.num_bytes = num_bytes;
    header.offset = static_cast<uint32_t>(offset_);
    header.number.store(++sent_, std::memory_order_seq_cst);
  }

  // Takes in how long a line took to come back from the reader; messages are written accordingly.
  void note_distance(int64_t nanoseconds) { distance_.note(nanoseconds); }

  // Whether the payload of a message is best written past the caches.
  bool streams(size_t num_bytes) const { return distance_.streams(num_bytes); }

  // Whether the reader needs this core and has messages enough to go on with. Without this, a sender would fill every
  // slot before the reader can pass on the first message to other cores, which wait for it.
  bool holds_up_reader() {
    if (!distance_.is_here()) return false;
    released_ = released().load(std::memory_order_seq_cst);
    return sent_ - released_ >= kEnoughMessages;
  }

 private:
  static constexpr uint64_t kEnoughMessages = 2;
  // Below this, the few lines are fetched from the other core sooner than from a cache that all cores share.
  static constexpr size_t kLeastWandering = 8 << 10;
  static constexpr uint64_t kLookPeriod = 8;

  SlotHeader& slot() const {
    return *reinterpret_cast<SlotHeader*>(memory_ + 2 * kLine + sent_ % shape_.num_slots * shape_.stride());
  }
  const std::atomic<uint64_t>& released() const { return *reinterpret_cast<const std::atomic<uint64_t>*>(memory_); }

  // Takes the line of the next message's header back from the reader, who has read it last.
  void feel_distance() {
    std::atomic_ref<uint64_t> word(slot().signature);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // what was written before is not to be waited for
    const int64_t begin = now();
    word.exchange(0, std::memory_order_seq_cst);
    note_distance(now() - begin - clock_nanoseconds());
    next_look_ = sent_ + kLookPeriod;
  }

  size_t place(size_t num_bytes) const {
    if (num_bytes < kLeastWandering || 2 * num_bytes > span_) return 0;
    const size_t size = (num_bytes + kLine - 1) / kLine * kLine;
    return sent_ / shape_.num_slots % (span_ / size) * size;
  }

  std::byte* memory_ = nullptr;
  QueueShape shape_{};
  uint64_t sent_ = 0, released_ = 0;
  uint64_t next_look_ = 0;  // not before the reader has read every header
  size_t span_ = 0, offset_ = 0;
  ReaderDistance distance_;
};

class ReceiveEnd {
 public:
  ReceiveEnd() = default;
  ReceiveEnd(std::byte* memory, QueueShape shape) : memory_(memory), shape_(shape) {}

  // The next message, or the one so many after it; nothing while it has not come.
  const SlotHeader* peek(uint64_t ahead = 0) const {
    const uint64_t index = taken_ + ahead;
    auto* slot = reinterpret_cast<const SlotHeader*>(memory_ + 2 * kLine + index % shape_.num_slots * shape_.stride());
    return slot->number.load(std::memory_order_seq_cst) == index + 1 ? slot : nullptr;
  }

  static const std::byte* payload(const SlotHeader* slot) {
    return reinterpret_cast<const std::byte*>(slot + 1) + slot->offset;
  }

  void release() {
    reinterpret_cast<std::atomic<uint64_t>*>(memory_)->store(++taken_, std::memory_order_seq_cst);
  }

 private:
  std::byte* memory_ = nullptr;
  QueueShape shape_{};
  uint64_t taken_ = 0;
};

}  // namespace hemiola::runtime
