// A connection: a ring of slots in memory that both ends see. One thread sends, one receives.
//
// The k-th message (from 1) lies in slot (k - 1) % num_slots; the slot's own number says that it is there, so
// the receiver polls the cache line that it needs anyway. `released` tells the sender how many messages have
// been taken. Fresh memory is zero, which is an empty queue.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/slot_writing.h"

namespace hemiola::runtime {

inline constexpr size_t kLine = 64;
inline constexpr size_t kPage = 4096;

struct QueueShape {
  uint32_t num_slots;
  uint32_t slot_bytes;

  size_t stride() const { return kLine + slot_bytes; }
  // Whole pages, so that each end can map a queue on its own.
  size_t num_bytes() const { return (2 * kLine + num_slots * stride() + kPage - 1) / kPage * kPage; }
};

struct alignas(kLine) SlotHeader {
  std::atomic<uint64_t> number;
  uint64_t signature;  // of the call that the message belongs to
  uint32_t num_bytes;
};
static_assert(sizeof(SlotHeader) == kLine && std::atomic<uint64_t>::is_always_lock_free);

// Publishing a message, releasing a slot, and the flags of sleepers are sequentially consistent: whoever
// goes to sleep says so first and looks again, whoever publishes publishes first and then looks for sleepers.
class SendEnd {
 public:
  SendEnd() = default;
  SendEnd(std::byte* memory, QueueShape shape) : memory_(memory), shape_(shape) {}

  // Where the next message goes, or nothing while every slot is taken.
  std::byte* acquire() {
    if (sent_ - released_ >= shape_.num_slots) {
      released_ = released().load(std::memory_order_seq_cst);
      if (sent_ - released_ >= shape_.num_slots) return nullptr;
    }
    return memory_ + 3 * kLine + sent_ % shape_.num_slots * shape_.stride();
  }

  void publish(uint64_t signature, uint32_t num_bytes) {
    auto& slot = *reinterpret_cast<SlotHeader*>(memory_ + 2 * kLine + sent_ % shape_.num_slots * shape_.stride());
    slot.signature = signature;
    slot.num_bytes = num_bytes;
    slot.number.store(++sent_, std::memory_order_seq_cst);
  }

  SlotWriting writing;

 private:
  const std::atomic<uint64_t>& released() const { return *reinterpret_cast<const std::atomic<uint64_t>*>(memory_); }

  std::byte* memory_ = nullptr;
  QueueShape shape_{};
  uint64_t sent_ = 0, released_ = 0;
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

  static const std::byte* payload(const SlotHeader* slot) { return reinterpret_cast<const std::byte*>(slot + 1); }

  void release() {
    reinterpret_cast<std::atomic<uint64_t>*>(memory_)->store(++taken_, std::memory_order_seq_cst);
  }

 private:
  std::byte* memory_ = nullptr;
  QueueShape shape_{};
  uint64_t taken_ = 0;
};

}  // namespace hemiola::runtime
