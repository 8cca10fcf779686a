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
//
// A message that goes on to a third rank, changed or not, need not be written a second time: pass_on() hands over the
// room in which it lies, and its slot gets the room of the slot into which it would have gone. Every slot has one room
// at any time, so queues hold as many messages as ever. Who works on a message where it lies writes every line of it,
// be it the same bytes: lines that a core owns alone are taken over by the next one as fast as they can be read, but
// lines of which several cores have copies are several times slower to write. Between cores that share no cache, rooms
// are passed on only if nobody reads one and leaves it to others to write (Travel::everywhere).
//
// Likewise a rank that has read a message and will send one itself keeps the room for that, and gives one of its own
// back (keep_room()): the reader can write these lines at once, their writer would first have to call back the copies
// that the reader has. Such a message does not wander; it lies where the one did that was read.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/clock.h"
#include "runtime/queue_shape.h"
#include "runtime/reader_distance.h"
#include "runtime/rooms.h"

namespace hemiola::runtime {

// Below this, the few lines of a message are fetched from another core sooner than from a cache that all cores share,
// and written sooner than a room changes hands: it does not wander, nor is its room passed on or kept.
inline constexpr size_t kLeastWandering = 8 << 10;

struct alignas(kLine) SlotHeader {
  std::atomic<uint64_t> number;
  uint64_t signature;  // of the call that the message belongs to
  uint32_t num_bytes;
  uint32_t offset;    // of the payload, from where its room begins
  uint64_t room;      // where the payload lies; once released, where the next one will
  bool is_from_afar;  // sent by a core that shares no cache with the receiver's
};
static_assert(sizeof(SlotHeader) == kLine && std::atomic<uint64_t>::is_always_lock_free);

// How far the rooms of a call's messages travel.
enum class Travel { near, everywhere };

// Where a queue lies, and its rooms among those of the host. Without these, messages are not passed on.
struct QueuePlace {
  std::byte* memory = nullptr;
  uint64_t first_room = 0;
  Rooms* rooms = nullptr;

  SlotHeader& slot(QueueShape shape, uint64_t number) const {
    return *reinterpret_cast<SlotHeader*>(memory + shape.slot_offset(number % shape.num_slots));
  }
  std::byte* room(QueueShape shape, uint64_t number) const {
    const uint64_t own = number - first_room;
    return own < shape.num_slots ? memory + shape.room_offset(own) : rooms->at(number);
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
        next_look_(shape.num_slots),
        used_(shape.num_slots),
        free_(shape.num_slots),
        end_free_(shape.num_slots) {
    for (uint64_t k = 0; k < shape.num_slots; ++k) free_[k] = room(place.first_room + k);
  }

  // How much messages wander over, in all rooms together, before they meet the same lines again.
  void set_span(size_t num_bytes) {
    span_ = num_bytes;
    span_in_room_ = std::min<size_t>(num_bytes / shape_.num_slots, shape_.slot_bytes);
  }

  // Where the next message goes, or nothing while every slot is taken: on the same byte of a line as `like`. One of
  // unknown length begins with its room.
  std::byte* acquire(size_t num_bytes = 0, const std::byte* like = nullptr) {
    newest_ = !has_kept_ && span_ > 0 && 2 * num_bytes >= span_;
    if (newest_ || is_full()) take_back();
    if (is_full()) return nullptr;
    if (sent_ >= next_look_) feel_distance();
    offset_ = place_in_room(num_bytes) + reinterpret_cast<uintptr_t>(like) % kLine;
    return next_room().data + offset_;
  }

  void publish(uint64_t signature, uint32_t num_bytes) {
    SlotHeader& header = slot(sent_);
    Used& used = used_[sent_ % shape_.num_slots];
    header.signature = signature;
    header.num_bytes = num_bytes;
    used = {next_room(), num_bytes >= kLeastWandering};
    newest_ ? --end_free_ : ++first_free_;
    has_kept_ = false;
    header.offset = static_cast<uint32_t>(offset_);
    header.room = used.room.number;
    header.is_from_afar = distance_.is_far();
    header.number.store(++sent_, std::memory_order_seq_cst);
  }

  // Gives a room in which the next message already lies for the one that acquire() found, and returns that one.
  uint64_t exchange_room(uint64_t number, std::byte* data, uint32_t offset) {
    offset_ = offset;
    return std::exchange(next_room(), Room{number, data}).number;
  }

  // Takes the room of a message that was read from another queue for the next one of this queue, which will lie on the
  // same lines if it is not longer, and returns the room that is to be released instead: the same one if this queue has
  // none to spare.
  uint64_t keep_room(const SlotHeader& message, std::byte* payload) {
    if (is_full()) take_back();
    if (is_full()) return message.room;
    has_kept_ = true;
    kept_offset_ = message.offset / kLine * kLine;
    kept_bytes_ = message.num_bytes;
    return std::exchange(free_[first_free_ % shape_.num_slots], Room{message.room, payload - message.offset}).number;
  }

  // Takes in how long a line took to come back from the reader; messages are written accordingly.
  void note_distance(int64_t nanoseconds) { distance_.note(nanoseconds); }

  // Whether the room of a message may change hands: go on with it, or be kept for the next one.
  bool can_take_over(const SlotHeader& message, Travel travel) const {
    if (message.num_bytes < kLeastWandering) return false;
    return travel == Travel::everywhere || (!message.is_from_afar && !distance_.is_far());
  }

  // Whether the payload of the next message is best written past the caches. A room that was kept is in those of this
  // core.
  bool streams(size_t num_bytes) const { return !has_kept_ && distance_.streams(num_bytes); }

  // Whether the reader needs this core and has messages enough to go on with. Without this, a sender would fill every
  // slot before the reader can pass on the first message to other cores, which wait for it.
  bool holds_up_reader() {
    if (!distance_.is_here()) return false;
    take_back();
    return sent_ - released_ >= kEnoughMessages;
  }

 private:
  static constexpr uint64_t kEnoughMessages = 2;
  static constexpr uint64_t kLookPeriod = 8;

  struct Room {
    uint64_t number = 0;
    std::byte* data = nullptr;
  };
  // The room of a message that was sent; only of a large one the reader may keep it and give another one.
  struct Used {
    Room room;
    bool may_change = false;
  };

  Room room(uint64_t number) const { return {number, place_.room(shape_, number)}; }
  Room& next_room() { return free_[(newest_ ? end_free_ - 1 : first_free_) % shape_.num_slots]; }
  SlotHeader& slot(uint64_t number) const { return place_.slot(shape_, number); }
  const std::atomic<uint64_t>& released() const {
    return *reinterpret_cast<const std::atomic<uint64_t>*>(place_.memory);
  }
  bool is_full() const { return sent_ - released_ >= shape_.num_slots; }

  // The rooms of messages that the reader has released.
  void take_back() {
    for (const uint64_t now = released().load(std::memory_order_seq_cst); released_ < now; ++released_) {
      const Used& used = used_[released_ % shape_.num_slots];
      const uint64_t number = used.may_change ? slot(released_).room : used.room.number;
      free_[end_free_++ % shape_.num_slots] = number == used.room.number ? used.room : room(number);
    }
  }

  // Takes the line of the next message's header back from the reader, who has read it last.
  void feel_distance() {
    std::atomic_ref<uint64_t> word(slot(sent_).signature);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // what was written before is not to be waited for
    const int64_t begin = now();
    word.exchange(0, std::memory_order_seq_cst);
    note_distance(now() - begin - clock_nanoseconds());
    next_look_ = sent_ + kLookPeriod;
  }

  size_t place_in_room(size_t num_bytes) const {
    if (has_kept_ && num_bytes > 0 && num_bytes <= kept_bytes_) return kept_offset_;
    if (num_bytes < kLeastWandering || 2 * num_bytes > span_in_room_) return 0;
    const size_t size = (num_bytes + kLine - 1) / kLine * kLine;
    return sent_ / shape_.num_slots % (span_in_room_ / size) * size;
  }

  QueuePlace place_;
  QueueShape shape_{};
  uint64_t sent_ = 0, released_ = 0;
  uint64_t next_look_ = 0;  // not before the reader has read every header
  size_t span_ = 0, span_in_room_ = 0, offset_ = 0;
  // The rooms of messages by slot, and those of the free slots in the order in which they came back. Messages go
  // through all of them, so that they meet the same lines as late as can be; but one that covers half the span by
  // itself has left the reader's own caches when it comes back, and takes the newest: few rooms fill the shared cache.
  std::vector<Used> used_;
  std::vector<Room> free_;
  uint64_t first_free_ = 0, end_free_ = 0;
  bool newest_ = false;
  // The first of the free rooms is one that was kept, and where the message lay in it.
  bool has_kept_ = false;
  size_t kept_offset_ = 0, kept_bytes_ = 0;
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
  std::byte* payload(const SlotHeader* message) const { return place_.room(shape_, message->room) + message->offset; }

  void release() {
    reinterpret_cast<std::atomic<uint64_t>*>(place_.memory)->store(++taken_, std::memory_order_seq_cst);
  }
  // The same, with another room for the slot.
  void release(uint64_t room) {
    place_.slot(shape_, taken_).room = room;
    release();
  }

 private:
  QueuePlace place_;
  QueueShape shape_{};
  uint64_t taken_ = 0;
};

// Publishes what lies in the room of the next message of one queue, in the slot that was acquired in another; the
// receiver then releases its slot with the room that is returned. Both queues are among those of a host.
inline uint64_t pass_on(const ReceiveEnd& from, SendEnd& to, uint64_t signature) {
  const SlotHeader& message = *from.peek();
  const uint64_t room = to.exchange_room(message.room, from.payload(&message) - message.offset, message.offset);
  to.publish(signature, message.num_bytes);
  return room;
}

}  // namespace hemiola::runtime
