// A connection: a ring of slots in memory that both ends see. One thread sends, one receives.
//
// The k-th message (from 1) lies in slot (k - 1) % num_slots; the slot's own number says that it is there, so
// the receiver polls the cache line that it needs anyway. `released` tells the sender how many messages have
// been taken. Fresh memory is zero, which is an empty queue.
//
// Payload offsets rotate within a slot: each time round the ring, a message lies one place further inside its slot. The
// lines that the receiver read a moment ago lie in the caches of its core, from where the sender would have to fetch
// them back; lines that these caches have forgotten are written several times faster. Payloads also begin on the same
// byte of a cache line as the sender's own data. Most programs lay out their buffers alike on all ranks, so that every
// step then finds what it reads and what it writes on the same bytes of lines.
//
// A message that goes on to a third rank, changed or not, is forwarded without a copy: forward_message() gives the
// payload buffer in which it lies to the next queue, and its slot gets the payload buffer of the slot into which it
// would have been copied. Every slot has one payload buffer at any time, so queues hold as many messages as ever. A
// rank that works on a message in place writes every line of it, even with the same bytes. The next core takes over
// lines that one core owns alone as fast as it can read them; lines of which several cores have copies are several
// times slower to write. Between cores that share no cache, payload buffers are therefore forwarded only where every
// reader of one also writes it (Travel::everywhere).
//
// Likewise a rank that has read a message and will send one itself reuses its payload buffer and gives one of its own
// back (reuse_buffer()). The reader can write these lines at once, whereas their first writer would have to call back
// the copies that the reader has. The offset of such a message does not rotate: it lies where the message lay that was
// read.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/clock.h"
#include "runtime/payload_buffers.h"
#include "runtime/queue_shape.h"
#include "runtime/reader_distance.h"

namespace hemiola::runtime {

// Below this many bytes, the few lines of a message are fetched from another core sooner than from a cache that all
// cores share, and written sooner than a payload buffer is forwarded. So the offset of a shorter message does not
// rotate, and its payload buffer is neither forwarded nor reused.
inline constexpr size_t kLeastRotated = 8 << 10;

struct alignas(kLine) SlotHeader {
  std::atomic<uint64_t> number;
  uint64_t signature;  // of the call that the message belongs to
  uint32_t num_bytes;
  uint32_t offset;    // of the payload, from where its buffer begins
  uint64_t buffer;    // where the payload lies; once released, where the next one will
  bool is_from_afar;  // sent by a core that shares no cache with the receiver's
};
static_assert(sizeof(SlotHeader) == kLine && std::atomic<uint64_t>::is_always_lock_free);

// Between which cores the payload buffers of a call's messages are forwarded.
enum class Travel { near, everywhere };

// Where a queue lies, and its payload buffers among those of the host. Without these, messages are not forwarded.
struct QueuePlace {
  std::byte* memory = nullptr;
  uint64_t first_buffer = 0;
  PayloadBuffers* buffers = nullptr;

  SlotHeader& slot(QueueShape shape, uint64_t number) const {
    return *reinterpret_cast<SlotHeader*>(memory + shape.slot_offset(number % shape.num_slots));
  }
  std::byte* buffer(QueueShape shape, uint64_t number) const {
    const uint64_t own = number - first_buffer;
    return own < shape.num_slots ? memory + shape.buffer_offset(own) : buffers->at(number);
  }
};

// Publishing a message, releasing a slot, and the flags of sleepers are sequentially consistent: whoever
// goes to sleep says so first and looks again, whoever publishes publishes first and then looks for sleepers.
class SendEnd {
 public:
  SendEnd() = default;
  SendEnd(QueuePlace place, QueueShape shape)
      : place_(place),
        shape_(shape),
        next_measurement_(shape.num_slots),
        used_(shape.num_slots),
        free_(shape.num_slots),
        end_free_(shape.num_slots) {
    for (uint64_t k = 0; k < shape.num_slots; ++k) free_[k] = buffer(place.first_buffer + k);
  }

  // The bytes over which payload offsets rotate, in all buffers together, before a line is used again.
  void set_span(size_t num_bytes) {
    span_ = num_bytes;
    span_in_buffer_ = std::min<size_t>(num_bytes / shape_.num_slots, shape_.slot_bytes);
  }

  // Where the next message goes, or nothing while every slot is taken: on the same byte of a line as `like`. One of
  // unknown length begins with its buffer.
  std::byte* acquire(size_t num_bytes = 0, const std::byte* like = nullptr) {
    newest_ = !reuses_ && span_ > 0 && 2 * num_bytes >= span_;
    if (newest_ || is_full()) take_back();
    if (is_full()) return nullptr;
    if (sent_ >= next_measurement_) measure_distance();
    offset_ = offset_in_buffer(num_bytes) + reinterpret_cast<uintptr_t>(like) % kLine;
    return next_buffer().data + offset_;
  }

  void publish(uint64_t signature, uint32_t num_bytes) {
    SlotHeader& header = slot(sent_);
    Used& used = used_[sent_ % shape_.num_slots];
    header.signature = signature;
    header.num_bytes = num_bytes;
    used = {next_buffer(), num_bytes >= kLeastRotated};
    newest_ ? --end_free_ : ++first_free_;
    reuses_ = false;
    header.offset = static_cast<uint32_t>(offset_);
    header.buffer = used.buffer.number;
    header.is_from_afar = distance_.is_far();
    header.number.store(++sent_, std::memory_order_seq_cst);
  }

  // Gives a buffer in which the next message already lies for the one that acquire() found, and returns that one.
  uint64_t exchange_buffer(uint64_t number, std::byte* data, uint32_t offset) {
    offset_ = offset;
    return std::exchange(next_buffer(), PayloadBuffer{number, data}).number;
  }

  // Takes the buffer of a message that was read from another queue for the next one of this queue, which will lie on
  // the same lines if it is not longer, and returns the buffer that is to be released instead: the same one if this
  // queue has none to spare.
  uint64_t reuse_buffer(const SlotHeader& message, std::byte* payload) {
    if (is_full()) take_back();
    if (is_full()) return message.buffer;
    reuses_ = true;
    reused_offset_ = message.offset / kLine * kLine;
    reused_bytes_ = message.num_bytes;
    return std::exchange(free_[first_free_ % shape_.num_slots], PayloadBuffer{message.buffer, payload - message.offset})
        .number;
  }

  // Takes in how long a line took to come back from the reader; messages are written accordingly.
  void note_distance(int64_t nanoseconds) { distance_.note(nanoseconds); }

  // Whether the buffer of a message may be forwarded with it, or reused for the next one.
  bool can_take_over(const SlotHeader& message, Travel travel) const {
    if (message.num_bytes < kLeastRotated) return false;
    return travel == Travel::everywhere || (!message.is_from_afar && !distance_.is_far());
  }

  // Whether the payload of the next message is best written past the caches. A buffer that is reused is in those of
  // this core.
  bool streams(size_t num_bytes) const { return !reuses_ && distance_.streams(num_bytes); }

  // Whether the reader needs this core and has messages enough to go on with. Without this, a sender would fill every
  // slot before the reader can pass on the first message to other cores, which wait for it.
  bool holds_up_reader() {
    if (!distance_.is_here()) return false;
    take_back();
    return sent_ - released_ >= kEnoughMessages;
  }

 private:
  static constexpr uint64_t kEnoughMessages = 2;
  static constexpr uint64_t kMeasurementPeriod = 8;

  struct PayloadBuffer {
    uint64_t number = 0;
    std::byte* data = nullptr;
  };
  // The buffer of a message that was sent; only of a large one the reader may keep it and give another one.
  struct Used {
    PayloadBuffer buffer;
    bool may_change = false;
  };

  PayloadBuffer buffer(uint64_t number) const { return {number, place_.buffer(shape_, number)}; }
  PayloadBuffer& next_buffer() { return free_[(newest_ ? end_free_ - 1 : first_free_) % shape_.num_slots]; }
  SlotHeader& slot(uint64_t number) const { return place_.slot(shape_, number); }
  const std::atomic<uint64_t>& released() const {
    return *reinterpret_cast<const std::atomic<uint64_t>*>(place_.memory);
  }
  bool is_full() const { return sent_ - released_ >= shape_.num_slots; }

  // The buffers of messages that the reader has released.
  void take_back() {
    for (const uint64_t now = released().load(std::memory_order_seq_cst); released_ < now; ++released_) {
      const Used& used = used_[released_ % shape_.num_slots];
      const uint64_t number = used.may_change ? slot(released_).buffer : used.buffer.number;
      free_[end_free_++ % shape_.num_slots] = number == used.buffer.number ? used.buffer : buffer(number);
    }
  }

  // Takes the line of the next message's header back from the reader, who has read it last.
  void measure_distance() {
    std::atomic_ref<uint64_t> word(slot(sent_).signature);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // what was written before is not to be waited for
    const int64_t begin = now();
    word.exchange(0, std::memory_order_seq_cst);
    note_distance(now() - begin - clock_nanoseconds());
    next_measurement_ = sent_ + kMeasurementPeriod;
  }

  size_t offset_in_buffer(size_t num_bytes) const {
    if (reuses_ && num_bytes > 0 && num_bytes <= reused_bytes_) return reused_offset_;
    if (num_bytes < kLeastRotated || 2 * num_bytes > span_in_buffer_) return 0;
    const size_t size = (num_bytes + kLine - 1) / kLine * kLine;
    return sent_ / shape_.num_slots % (span_in_buffer_ / size) * size;
  }

  QueuePlace place_;
  QueueShape shape_{};
  uint64_t sent_ = 0, released_ = 0;
  uint64_t next_measurement_ = 0;  // not before the reader has read every header
  size_t span_ = 0, span_in_buffer_ = 0, offset_ = 0;
  // The buffers of messages by slot, and those of the free slots in the order in which they came back. Messages go
  // through all of them, so that they meet the same lines as late as can be; but one that covers half the span by
  // itself has left the reader's own caches when it comes back, and takes the newest: few buffers fill the shared
  // cache.
  std::vector<Used> used_;
  std::vector<PayloadBuffer> free_;
  uint64_t first_free_ = 0, end_free_ = 0;
  bool newest_ = false;
  // Whether the first of the free buffers is a reused one, and where the message lay in it.
  bool reuses_ = false;
  size_t reused_offset_ = 0, reused_bytes_ = 0;
  ReaderDistance distance_;
};

class ReceiveEnd {
 public:
  ReceiveEnd() = default;
  ReceiveEnd(QueuePlace place, QueueShape shape) : place_(place), shape_(shape) {}

  // The next message, or the one so many after it; nothing while it has not come.
  const SlotHeader* peek(uint64_t ahead = 0) const {
    const uint64_t index = taken_ + ahead;
    const SlotHeader& slot = place_.slot(shape_, index);
    return slot.number.load(std::memory_order_seq_cst) == index + 1 ? &slot : nullptr;
  }

  // Until the message is released, its payload is the receiver's to change.
  std::byte* payload(const SlotHeader* message) const {
    return place_.buffer(shape_, message->buffer) + message->offset;
  }

  void release() {
    reinterpret_cast<std::atomic<uint64_t>*>(place_.memory)->store(++taken_, std::memory_order_seq_cst);
  }
  // The same, with another buffer for the slot.
  void release(uint64_t buffer) {
    place_.slot(shape_, taken_).buffer = buffer;
    release();
  }

 private:
  QueuePlace place_;
  QueueShape shape_{};
  uint64_t taken_ = 0;
};

// Publishes what lies in the buffer of the next message of one queue, in the slot that was acquired in another; the
// receiver then releases its slot with the buffer that is returned. Both queues are among those of a host.
inline uint64_t forward_message(const ReceiveEnd& from, SendEnd& to, uint64_t signature) {
  const SlotHeader& message = *from.peek();
  const uint64_t buffer = to.exchange_buffer(message.buffer, from.payload(&message) - message.offset, message.offset);
  to.publish(signature, message.num_bytes);
  return buffer;
}

}  // namespace hemiola::runtime
