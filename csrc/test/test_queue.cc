// The queue: one thread sends, one receives, and nothing is lost, doubled or torn.
#include "runtime/queue.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/mapping.h"
#include "runtime/payload_buffers.h"
#include "test/check.h"

namespace hemiola::test {
namespace {

using runtime::Descriptor, runtime::kLeastRotated, runtime::kLine, runtime::kPage, runtime::Mapping,
    runtime::QueueShape, runtime::ReceiveEnd, runtime::PayloadBuffers, runtime::SendEnd, runtime::SlotHeader,
    runtime::Travel;

TEST(a_queue_is_whole_pages_and_its_payloads_begin_a_line) {
  for (const uint32_t slots : {1u, 2u, 7u, 1024u})
    for (const uint32_t bytes : {64u, 4096u, 1u << 17}) {
      const QueueShape shape{slots, bytes};
      CHECK(shape.num_bytes() % kPage == 0);
      CHECK(shape.num_bytes() >= 2 * kLine + size_t{slots} * (kLine + bytes));
      CHECK(shape.stride() % kLine == 0);
    }
}

TEST(fresh_memory_is_an_empty_queue_that_takes_as_many_messages_as_it_has_slots) {
  for (const uint32_t slots : {1u, 2u, 3u, 8u}) {
    const QueueShape shape{slots, 128};
    Mapping memory(shape.num_bytes());
    SendEnd sender({memory.data()}, shape);
    ReceiveEnd receiver({memory.data()}, shape);
    CHECK(receiver.peek() == nullptr);
    for (uint32_t round = 0; round < 5; ++round) {
      for (uint32_t k = 0; k < slots; ++k) {
        std::byte* place = sender.acquire();
        CHECK(place != nullptr && place == sender.acquire(), "until it is published the place stays the same");
        CHECK(place >= memory.data() && place + shape.slot_bytes <= memory.data() + memory.size());
        std::memset(place, static_cast<int>(round * 16 + k), shape.slot_bytes);
        sender.publish(round * 100 + k, 100 + k);
      }
      CHECK(sender.acquire() == nullptr, "every slot is taken");
      for (uint32_t k = 0; k < slots; ++k) {
        const SlotHeader* message = receiver.peek();
        CHECK(message != nullptr && message->signature == round * 100 + k && message->num_bytes == 100 + k);
        const std::byte* payload = receiver.payload(message);
        CHECK(std::all_of(payload, payload + shape.slot_bytes,
                          [&](std::byte byte) { return byte == static_cast<std::byte>(round * 16 + k); }));
        receiver.release();
      }
      CHECK(receiver.peek() == nullptr);
    }
  }
}

TEST(payload_offsets_rotate_over_the_span_of_their_slots_and_never_beyond) {
  constexpr uint32_t kSlots = 3, kSlotBytes = 64 << 10;
  const QueueShape shape{kSlots, kSlotBytes};
  const auto places = [&](size_t span, uint32_t num_bytes) {
    Mapping memory(shape.num_bytes());
    SendEnd sender({memory.data()}, shape);
    ReceiveEnd receiver({memory.data()}, shape);
    sender.set_span(span * kSlots);
    std::set<std::pair<uint64_t, ptrdiff_t>> found;
    for (uint64_t k = 0; k < 100; ++k) {
      std::byte* place = sender.acquire(num_bytes);
      sender.publish(k, num_bytes);
      const SlotHeader* message = receiver.peek();
      CHECK(message != nullptr && receiver.payload(message) == place);
      const std::byte* buffer = reinterpret_cast<const std::byte*>(message + 1);
      CHECK(place >= buffer &&
            place + num_bytes <= buffer + std::max<size_t>(std::min<size_t>(span, kSlotBytes), num_bytes));
      CHECK((place - memory.data()) % kLine == 0);
      found.emplace(k % kSlots, place - buffer);
      receiver.release();
    }
    return found.size();
  };
  CHECK(places(kSlotBytes, 8 << 10) == kSlots * 8);
  CHECK(places(1 << 20, 16 << 10) == kSlots * 4, "a span ends with its slot");
  CHECK(places(32 << 10, (8 << 10) + 1) == kSlots * 3);
  CHECK(places(kSlotBytes, kSlotBytes / 2 + 1) == kSlots && places(kSlotBytes, kSlotBytes) == kSlots);
  CHECK(places(kSlotBytes, 4 << 10) == kSlots, "small messages stay where they are");
  CHECK(places(0, 8 << 10) == kSlots);
}

TEST(messages_lie_on_lines_as_the_data_of_their_sender_does) {
  const QueueShape shape{2, 128};
  Mapping memory(shape.num_bytes());
  SendEnd sender({memory.data()}, shape);
  ReceiveEnd receiver({memory.data()}, shape);
  alignas(kLine) std::byte data[2 * kLine];
  for (size_t k = 0; k < 2 * kLine; ++k) {
    std::byte* place = sender.acquire(shape.slot_bytes, data + k);
    CHECK(place != nullptr && reinterpret_cast<uintptr_t>(place) % kLine == k % kLine);
    CHECK(place + shape.slot_bytes <= memory.data() + memory.size());
    std::memset(place, static_cast<int>(k), shape.slot_bytes);
    sender.publish(k, shape.slot_bytes);
    const SlotHeader* message = receiver.peek();
    CHECK(message != nullptr && message->signature == k && receiver.payload(message) == place);
    receiver.release();
  }
}

// Every payload is its number repeated, as long as its number says.
void run_stress(QueueShape shape, uint64_t num_messages) {
  Mapping memory(shape.num_bytes());
  const auto length = [&](uint64_t number) { return static_cast<uint32_t>(number * 8 % (shape.slot_bytes + 8)); };
  std::thread sender([&] {
    SendEnd end({memory.data()}, shape);
    for (uint64_t number = 0; number < num_messages; ++number) {
      std::byte* place;
      end.set_span(number % 3 * shape.slot_bytes / 2 * shape.num_slots);  // as calls of different plans set it
      const auto* like = reinterpret_cast<const std::byte*>(number % kLine / 8 * 8);
      while ((place = end.acquire(length(number), like)) == nullptr) sched_yield();
      for (uint32_t k = 0; k < length(number); k += 8) std::memcpy(place + k, &number, 8);
      end.publish(~number, length(number));
    }
  });
  ReceiveEnd end({memory.data()}, shape);
  for (uint64_t number = 0; number < num_messages; ++number) {
    const SlotHeader* message;
    while ((message = end.peek()) == nullptr) sched_yield();
    CHECK(message->signature == ~number, "message ", number);
    CHECK(message->num_bytes == length(number), "message ", number);
    for (uint32_t k = 0; k < message->num_bytes; k += 8)
      CHECK(std::memcmp(end.payload(message) + k, &number, 8) == 0, "message ", number, ", byte ", k);
    end.release();
  }
  sender.join();
}

TEST(millions_of_messages_arrive_in_order) { run_stress({64, 64}, 2'000'000); }
TEST(messages_arrive_in_order_where_the_slots_are_no_power_of_two) { run_stress({7, 128}, 300'000); }
TEST(messages_arrive_in_order_through_two_slots) { run_stress({2, 64}, 100'000); }
TEST(messages_arrive_in_order_through_one_slot) { run_stress({1, 64}, 50'000); }
TEST(long_messages_arrive_whole) { run_stress({4, 8192}, 20'000); }
TEST(messages_arrive_whole_at_every_offset) { run_stress({4, 64 << 10}, 20'000); }

// Ranks in a ring, each with a queue to the next. All of them see the memory at the same addresses, although processes
// do not, so that ThreadSanitizer knows who waited for whom; test_executor.cc has mappings for each.
class Ring {
 public:
  Ring(uint32_t num_ranks, QueueShape shape) : payload_buffers_(num_ranks, shape) {
    for (uint32_t rank = 0; rank < num_ranks; ++rank) {
      segments_.push_back(runtime::make_memory_file(payload_buffers_.segment_bytes()));
      payload_buffers_.set_segment(rank, segments_.back().get());
    }
    for (uint32_t rank = 0; rank < num_ranks; ++rank) {
      sends.emplace_back(place((rank + 1) % num_ranks, rank), shape);
      receives.emplace_back(place(rank, (rank + num_ranks - 1) % num_ranks), shape);
    }
  }

  std::vector<SendEnd> sends;  // of each rank to the next one
  std::vector<ReceiveEnd> receives;

 private:
  runtime::QueuePlace place(uint32_t receiver, uint32_t sender) {
    const uint64_t queue = payload_buffers_.queue(receiver, sender, 0);
    return {payload_buffers_.queue_memory(queue), payload_buffers_.first_buffer(queue), &payload_buffers_};
  }

  PayloadBuffers payload_buffers_;
  std::vector<Descriptor> segments_;
};

TEST(a_message_that_is_passed_on_keeps_its_buffer_and_leaves_another_one) {
  constexpr uint32_t kBytes = kLeastRotated;
  const QueueShape shape{2, kBytes};
  Ring ring(3, shape);
  SendEnd &first = ring.sends[0], &second = ring.sends[1];
  ReceiveEnd &middle = ring.receives[1], &last = ring.receives[2];

  std::byte* place = first.acquire(kBytes);
  std::memset(place, 7, kBytes);
  first.publish(1, kBytes);
  const uint64_t buffer = middle.peek()->buffer;
  std::byte* payload = middle.payload(middle.peek());
  payload[3] = std::byte{9};  // the receiver may change it
  CHECK(second.acquire(kBytes) != nullptr);
  const uint64_t other = runtime::forward_message(middle, second, 2);
  CHECK(other != buffer);
  middle.release(other);

  const SlotHeader* message = last.peek();
  CHECK(message != nullptr && message->signature == 2 && message->num_bytes == kBytes && message->buffer == buffer);
  CHECK(last.payload(message)[2] == std::byte{7} && last.payload(message)[3] == std::byte{9});
  CHECK(place[3] == std::byte{9}, "it is the same memory");

  // The first queue still takes two messages, the second of them in the buffer that the message left.
  std::set<uint64_t> buffers;
  for (uint64_t k = 0; k < shape.num_slots; ++k) {
    CHECK(first.acquire(kBytes) != nullptr);
    first.publish(3, kBytes);
    buffers.insert(middle.peek(k)->buffer);
  }
  CHECK(first.acquire(kBytes) == nullptr);
  CHECK(buffers.size() == shape.num_slots && buffers.contains(other) && !buffers.contains(buffer));
}

TEST(buffers_travel_where_they_may_and_small_messages_stay_in_theirs) {
  constexpr int64_t kNear = 30, kFar = 110;
  const auto is_taken_over = [](int64_t from, int64_t to, uint32_t num_bytes, Travel travel) {
    Ring ring(3, {2, kLeastRotated});
    for (int k = 0; k < 100; ++k) {
      ring.sends[0].note_distance(from);
      ring.sends[1].note_distance(to);
    }
    CHECK(ring.sends[0].acquire(num_bytes) != nullptr);
    ring.sends[0].publish(1, num_bytes);
    return ring.sends[1].can_take_over(*ring.receives[1].peek(), travel);
  };
  for (const auto& [from, to] : {std::pair{kNear, kNear}, {kNear, kFar}, {kFar, kNear}}) {
    CHECK(is_taken_over(from, to, kLeastRotated, Travel::everywhere));
    CHECK(is_taken_over(from, to, kLeastRotated, Travel::near) == (from == kNear && to == kNear));
    CHECK(!is_taken_over(from, to, kLeastRotated - 1, Travel::everywhere));
  }
}

TEST(messages_to_afar_go_past_the_caches_unless_their_buffer_was_kept) {
  constexpr uint32_t kBytes = 16 << 10;
  Ring ring(2, {2, kBytes});
  for (int k = 0; k < 100; ++k) ring.sends[0].note_distance(110);
  CHECK(ring.sends[0].streams(kBytes) && !ring.sends[1].streams(kBytes));
  CHECK(ring.sends[1].acquire(kBytes) != nullptr);
  ring.sends[1].publish(1, kBytes);
  const SlotHeader* message = ring.receives[0].peek();
  ring.receives[0].release(ring.sends[0].reuse_buffer(*message, ring.receives[0].payload(message)));
  CHECK(!ring.sends[0].streams(kBytes));
  CHECK(ring.sends[0].acquire(kBytes) != nullptr);
  ring.sends[0].publish(1, kBytes);
  CHECK(ring.sends[0].streams(kBytes), "only the next one");
}

TEST(who_reads_a_message_may_write_the_next_one_in_its_buffer) {
  constexpr uint32_t kBytes = 2 * kLeastRotated, kOffset = 2 * kLine;
  const QueueShape shape{2, 4 * kBytes};
  Ring ring(2, shape);
  SendEnd &there = ring.sends[0], &back = ring.sends[1];
  ReceiveEnd &here = ring.receives[1], &origin = ring.receives[0];
  std::set<uint64_t> used;
  for (int round = 0; round < 10; ++round) {
    alignas(kLine) std::byte data[kLine];
    std::byte* place = there.acquire(kBytes, data + 5);
    CHECK(place != nullptr);
    there.publish(1, kBytes);
    const SlotHeader* message = here.peek();
    const uint64_t buffer = message->buffer;
    const uint64_t other = back.reuse_buffer(*message, here.payload(message));
    CHECK(other != buffer);
    here.release(other);
    std::byte* answer = back.acquire(kBytes - kOffset, data + 8);
    CHECK(answer == place - 5 + 8, "on the lines where the message lay");
    back.publish(2, kBytes - kOffset);
    CHECK(origin.peek()->buffer == buffer);
    used.insert(buffer);
    const uint64_t spare = there.reuse_buffer(*origin.peek(), origin.payload(origin.peek()));
    CHECK(spare != buffer);
    origin.release(spare);
  }
  CHECK(used.size() == 1, "one buffer goes back and forth");
}

TEST(a_buffer_is_not_kept_where_every_slot_is_taken) {
  constexpr uint32_t kBytes = kLeastRotated;
  const QueueShape shape{2, kBytes};
  Ring ring(2, shape);
  for (uint64_t k = 0; k < shape.num_slots; ++k)
    for (SendEnd& end : ring.sends) {
      CHECK(end.acquire(kBytes) != nullptr);
      end.publish(k, kBytes);
    }
  const SlotHeader* message = ring.receives[1].peek();
  CHECK(ring.sends[1].reuse_buffer(*message, ring.receives[1].payload(message)) == message->buffer);
}

TEST(a_longer_message_than_the_one_whose_buffer_was_kept_begins_with_the_buffer) {
  constexpr uint32_t kBytes = kLeastRotated;
  const QueueShape shape{1, 4 * kBytes};
  Ring ring(2, shape);
  ring.sends[0].set_span(4 * kBytes);
  for (int k = 0; k < 3; ++k) {  // its offset rotates to the end of the buffer
    CHECK(ring.sends[0].acquire(kBytes) != nullptr);
    ring.sends[0].publish(0, kBytes);
    ring.receives[1].release();
  }
  std::byte* place = ring.sends[0].acquire(kBytes);
  ring.sends[0].publish(0, kBytes);
  const SlotHeader* message = ring.receives[1].peek();
  CHECK(message->offset == 3 * kBytes);
  ring.receives[1].release(ring.sends[1].reuse_buffer(*message, ring.receives[1].payload(message)));
  CHECK(ring.sends[1].acquire(4 * kBytes) == place - 3 * kBytes);
  CHECK(ring.sends[1].acquire() == place - 3 * kBytes, "one of unknown length may be as long as its buffer");
  CHECK(ring.sends[1].acquire(kBytes) == place);
}

TEST(every_slot_has_one_buffer_whatever_happens_to_messages) {
  constexpr uint32_t kRanks = 3, kBytes = kLeastRotated;
  for (const uint32_t slots : {1u, 2u, 4u}) {
    Ring ring(kRanks, {slots, 2 * kBytes});
    std::mt19937 random(slots);
    for (int round = 0; round < 20'000; ++round) {
      const auto rank = static_cast<uint32_t>(random() % kRanks);
      SendEnd& to = ring.sends[rank];
      ReceiveEnd& from = ring.receives[rank];
      const SlotHeader* message = from.peek();
      const bool has_slot = to.acquire(kBytes) != nullptr;
      if (message != nullptr && random() % 2 == 0) {
        const bool is_large = message->num_bytes >= kLeastRotated;
        if (is_large && has_slot && random() % 2 == 0)
          from.release(runtime::forward_message(from, to, 0));
        else if (is_large && random() % 2 == 0)
          from.release(to.reuse_buffer(*message, from.payload(message)));
        else
          from.release();
      } else if (has_slot) {
        to.set_span(random() % 3 * kBytes);
        const uint32_t num_bytes = random() % 3 == 0 ? 64 : kBytes;
        CHECK(to.acquire(num_bytes) != nullptr);
        to.publish(0, num_bytes);
      }
    }
    for (ReceiveEnd& end : ring.receives)
      for (; end.peek() != nullptr; end.release()) {
      }
    std::set<uint64_t> buffers;
    for (uint32_t rank = 0; rank < kRanks; ++rank)
      for (uint32_t k = 0; k < slots; ++k) {
        CHECK(ring.sends[rank].acquire(kBytes) != nullptr);
        ring.sends[rank].publish(0, kBytes);
        CHECK(buffers.insert(ring.receives[(rank + 1) % kRanks].peek(k)->buffer).second, "a buffer in two slots");
      }
  }
}

TEST(a_message_that_covers_half_the_span_takes_the_newest_buffer_and_others_go_through_all) {
  constexpr uint32_t kSlots = 4, kBytes = 16 << 10;
  const auto count_buffers = [](size_t span) {
    Ring ring(2, {kSlots, kBytes});
    ring.sends[0].set_span(span);
    std::set<uint64_t> buffers;
    for (uint32_t k = 0; k < 3 * kSlots; ++k) {
      CHECK(ring.sends[0].acquire(kBytes) != nullptr);
      ring.sends[0].publish(k, kBytes);
      buffers.insert(ring.receives[1].peek()->buffer);
      ring.receives[1].release();
    }
    return buffers.size();
  };
  CHECK(count_buffers(2 * kBytes) == 1);
  CHECK(count_buffers(2 * kBytes + 1) == kSlots);
  CHECK(count_buffers(0) == kSlots);
}

// Messages go once around a ring; each rank in between changes every word, and passes a message on or copies it.
void run_around(uint32_t num_ranks, QueueShape shape, uint64_t num_messages) {
  Ring ring(num_ranks, shape);
  const auto length = [&](uint64_t number) {
    return static_cast<uint32_t>(number * 4096 % (shape.slot_bytes + 4096)) / 8 * 8;
  };
  const auto span = [&](uint64_t number) { return number / 7 % 4 * shape.slot_bytes; };
  std::vector<std::thread> threads;
  for (uint32_t rank = 1; rank < num_ranks; ++rank)
    threads.emplace_back([&, rank] {
      ReceiveEnd& from = ring.receives[rank];
      SendEnd& to = ring.sends[rank];
      for (uint64_t number = 0; number < num_messages; ++number) {
        const SlotHeader* message;
        while ((message = from.peek()) == nullptr) sched_yield();
        CHECK(message->num_bytes == length(number) && message->signature == number);
        to.set_span(span(number + rank));
        std::byte *in = from.payload(message), *out;
        while ((out = to.acquire(length(number))) == nullptr) sched_yield();
        const bool passes = length(number) >= kLeastRotated && (number + rank) % 3 != 0;
        for (uint32_t k = 0; k < length(number); k += 8) {
          uint64_t word;
          std::memcpy(&word, in + k, 8);
          ++word;
          std::memcpy((passes ? in : out) + k, &word, 8);
        }
        if (passes) {
          from.release(runtime::forward_message(from, to, number));
        } else {
          to.publish(number, length(number));
          from.release();
        }
      }
    });
  threads.emplace_back([&] {
    for (uint64_t number = 0; number < num_messages; ++number) {
      ring.sends[0].set_span(span(number));
      std::byte* place;
      while ((place = ring.sends[0].acquire(length(number))) == nullptr) sched_yield();
      for (uint32_t k = 0; k < length(number); k += 8) {
        const uint64_t word = number * 1000 + k;
        std::memcpy(place + k, &word, 8);
      }
      ring.sends[0].publish(number, length(number));
    }
  });
  ReceiveEnd& end = ring.receives[0];
  for (uint64_t number = 0; number < num_messages; ++number) {
    const SlotHeader* message;
    while ((message = end.peek()) == nullptr) sched_yield();
    CHECK(message->num_bytes == length(number), "message ", number);
    for (uint32_t k = 0; k < length(number); k += 8) {
      uint64_t word;
      std::memcpy(&word, end.payload(message) + k, 8);
      CHECK(word == number * 1000 + k + num_ranks - 1, "message ", number, ", byte ", k);
    }
    end.release();
  }
  for (std::thread& thread : threads) thread.join();
}

// Two ranks answer every message of the other, each now and then in the buffer in which it came.
void run_back_and_forth(QueueShape shape, uint64_t num_messages) {
  Ring ring(2, shape);
  const auto length = [&](uint64_t number, uint32_t rank) {
    return static_cast<uint32_t>((number * 4096 + rank * 24) % (shape.slot_bytes + 1)) / 8 * 8;
  };
  const auto word = [](uint64_t number, uint32_t rank, uint32_t k) { return number * 1000 + rank * 7 + k; };
  const auto be_rank = [&](uint32_t rank) {
    SendEnd& to = ring.sends[rank];
    ReceiveEnd& from = ring.receives[rank];
    const auto send = [&](uint64_t number) {
      std::byte* place;
      const auto* like = reinterpret_cast<const std::byte*>(number % kLine / 8 * 8);
      to.set_span(number / 7 % 4 * shape.slot_bytes);
      while ((place = to.acquire(length(number, rank), like)) == nullptr) sched_yield();
      for (uint32_t k = 0; k < length(number, rank); k += 8) {
        const uint64_t value = word(number, rank, k);
        std::memcpy(place + k, &value, 8);
      }
      to.publish(number, length(number, rank));
    };
    send(0);
    for (uint64_t number = 0; number < num_messages; ++number) {
      const bool is_early = shape.num_slots > 1 && number % 5 == 3;  // before what it could keep is there
      if (is_early && number + 1 < num_messages) send(number + 1);
      const SlotHeader* message;
      while ((message = from.peek()) == nullptr) sched_yield();
      CHECK(message->signature == number && message->num_bytes == length(number, 1 - rank), "message ", number);
      for (uint32_t k = 0; k < message->num_bytes; k += 8) {
        const uint64_t value = word(number, 1 - rank, k);
        CHECK(std::memcmp(from.payload(message) + k, &value, 8) == 0, "message ", number, ", byte ", k);
      }
      if (message->num_bytes >= kLeastRotated && (number + rank) % 3 != 0)
        from.release(to.reuse_buffer(*message, from.payload(message)));
      else
        from.release();
      if (!is_early && number + 1 < num_messages) send(number + 1);
    }
  };
  std::thread other([&] { be_rank(1); });
  be_rank(0);
  other.join();
}

TEST(buffers_go_back_and_forth) { run_back_and_forth({3, 32 << 10}, 20'000); }
TEST(buffers_go_back_and_forth_through_one_slot) { run_back_and_forth({1, 16 << 10}, 10'000); }
TEST(buffers_go_back_and_forth_through_two_slots) { run_back_and_forth({2, 16 << 10}, 10'000); }

TEST(messages_go_around_two_ranks_in_each_others_buffers) { run_around(2, {3, 32 << 10}, 10'000); }
TEST(messages_go_around_five_ranks_in_each_others_buffers) { run_around(5, {4, 16 << 10}, 5'000); }
TEST(messages_go_around_through_one_slot_each) { run_around(4, {1, 16 << 10}, 3'000); }

}  // namespace
}  // namespace hemiola::test
