// The queue: one thread sends, one receives, and nothing is lost, doubled or torn.
#include "runtime/queue.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>
#include <utility>

#include "runtime/mapping.h"
#include "test/check.h"

namespace hemiola::test {
namespace {

using runtime::kLine, runtime::kPage, runtime::Mapping, runtime::QueueShape, runtime::ReceiveEnd, runtime::SendEnd,
    runtime::SlotHeader;

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
    SendEnd sender(memory.data(), shape);
    ReceiveEnd receiver(memory.data(), shape);
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
        const std::byte* payload = ReceiveEnd::payload(message);
        CHECK(std::all_of(payload, payload + shape.slot_bytes,
                          [&](std::byte byte) { return byte == static_cast<std::byte>(round * 16 + k); }));
        receiver.release();
      }
      CHECK(receiver.peek() == nullptr);
    }
  }
}

TEST(messages_wander_over_the_span_of_their_slots_and_never_beyond) {
  constexpr uint32_t kSlots = 3, kSlotBytes = 64 << 10;
  const QueueShape shape{kSlots, kSlotBytes};
  const auto places = [&](size_t span, uint32_t num_bytes) {
    Mapping memory(shape.num_bytes());
    SendEnd sender(memory.data(), shape);
    ReceiveEnd receiver(memory.data(), shape);
    sender.set_span(span);
    std::set<std::pair<uint64_t, ptrdiff_t>> found;
    for (uint64_t k = 0; k < 100; ++k) {
      std::byte* place = sender.acquire(num_bytes);
      sender.publish(k, num_bytes);
      const SlotHeader* message = receiver.peek();
      CHECK(message != nullptr && ReceiveEnd::payload(message) == place);
      const std::byte* room = reinterpret_cast<const std::byte*>(message + 1);
      CHECK(place >= room && place + num_bytes <= room + std::max<size_t>(std::min<size_t>(span, kSlotBytes), num_bytes));
      CHECK((place - memory.data()) % kLine == 0);
      found.emplace(k % kSlots, place - room);
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
  SendEnd sender(memory.data(), shape);
  ReceiveEnd receiver(memory.data(), shape);
  alignas(kLine) std::byte data[2 * kLine];
  for (size_t k = 0; k < 2 * kLine; ++k) {
    std::byte* place = sender.acquire(shape.slot_bytes, data + k);
    CHECK(place != nullptr && reinterpret_cast<uintptr_t>(place) % kLine == k % kLine);
    CHECK(place + shape.slot_bytes <= memory.data() + memory.size());
    std::memset(place, static_cast<int>(k), shape.slot_bytes);
    sender.publish(k, shape.slot_bytes);
    const SlotHeader* message = receiver.peek();
    CHECK(message != nullptr && message->signature == k && ReceiveEnd::payload(message) == place);
    receiver.release();
  }
}

// Every payload is its number repeated, as long as its number says.
void run_stress(QueueShape shape, uint64_t num_messages) {
  Mapping memory(shape.num_bytes());
  const auto length = [&](uint64_t number) { return static_cast<uint32_t>(number * 8 % (shape.slot_bytes + 8)); };
  std::thread sender([&] {
    SendEnd end(memory.data(), shape);
    for (uint64_t number = 0; number < num_messages; ++number) {
      std::byte* place;
      end.set_span(number % 3 * shape.slot_bytes / 2);  // as calls of different plans set it
      const auto* like = reinterpret_cast<const std::byte*>(number % kLine / 8 * 8);
      while ((place = end.acquire(length(number), like)) == nullptr) sched_yield();
      for (uint32_t k = 0; k < length(number); k += 8) std::memcpy(place + k, &number, 8);
      end.publish(~number, length(number));
    }
  });
  ReceiveEnd end(memory.data(), shape);
  for (uint64_t number = 0; number < num_messages; ++number) {
    const SlotHeader* message;
    while ((message = end.peek()) == nullptr) sched_yield();
    CHECK(message->signature == ~number, "message ", number);
    CHECK(message->num_bytes == length(number), "message ", number);
    for (uint32_t k = 0; k < message->num_bytes; k += 8)
      CHECK(std::memcmp(ReceiveEnd::payload(message) + k, &number, 8) == 0, "message ", number, ", byte ", k);
    end.release();
  }
  sender.join();
}

TEST(millions_of_messages_arrive_in_order) { run_stress({64, 64}, 2'000'000); }
TEST(messages_arrive_in_order_where_the_slots_are_no_power_of_two) { run_stress({7, 128}, 300'000); }
TEST(messages_arrive_in_order_through_two_slots) { run_stress({2, 64}, 100'000); }
TEST(messages_arrive_in_order_through_one_slot) { run_stress({1, 64}, 50'000); }
TEST(long_messages_arrive_whole) { run_stress({4, 8192}, 20'000); }
TEST(messages_arrive_whole_wherever_they_wander) { run_stress({4, 64 << 10}, 20'000); }

}  // namespace
}  // namespace hemiola::test
