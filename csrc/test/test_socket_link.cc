// A link over a real socket: messages arrive whole however they are cut on the way, and bytes that are no frame
// end the link without reaching a slot.
#include "runtime/socket_link.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "test/check.h"

namespace hemiola::test {
namespace {

using runtime::Failure, runtime::FailureKind, runtime::Presence, runtime::QueueShape, runtime::ReceiveEnd,
    runtime::RemoteStatus, runtime::SlotHeader, runtime::SocketLink;
using State = SocketLink::State;

constexpr QueueShape kShape{4, 256};
constexpr uint32_t kMagic = 0x48454d49;
constexpr uint32_t kMessage = 1, kQuestion = 2, kStatus = 3, kFailure = 4, kFarewell = 5;

// What travels: a header of 24 bytes, then its payload.
struct Header {
  uint32_t magic, kind, num_bytes, reserved;
  uint64_t signature;
};
static_assert(sizeof(Header) == 24);

std::vector<char> frame(uint32_t kind, uint32_t num_bytes, uint64_t signature = 0, uint32_t magic = kMagic) {
  const Header header{magic, kind, num_bytes, 0, signature};
  std::vector<char> bytes(sizeof(header) + num_bytes, 'x');
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

struct Sockets {
  int ends[2];

  Sockets() {
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    const int size = 4096;
    for (const int end : ends) CHECK(setsockopt(end, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)) == 0);
  }
};

// pump() tells of messages alone, so what else is under way gets some more rounds.
constexpr int kQuiet = 4;

void pump_all(SocketLink& link) {
  for (int quiet = 0; quiet < kQuiet; ++quiet)
    if (link.pump()) quiet = 0;
}

// One link, and the other end of its socket in the hands of a stranger.
class Exposed {
 public:
  Exposed() : link(sockets_.ends[0], kShape) {}
  ~Exposed() { hang_up(); }

  void give(const std::vector<char>& bytes) {
    CHECK(write(sockets_.ends[1], bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  void hang_up() {
    if (sockets_.ends[1] >= 0) close(std::exchange(sockets_.ends[1], -1));
  }
  void pump_all() { test::pump_all(link); }

 private:
  Sockets sockets_;

 public:
  SocketLink link;
};

struct Pair {
  Sockets sockets;
  SocketLink one{sockets.ends[0], kShape}, other{sockets.ends[1], kShape};

  void settle() {
    for (int quiet = 0; quiet < kQuiet; ++quiet)
      if (one.pump() | other.pump()) quiet = 0;
  }
};

void put(SocketLink& link, uint64_t number, uint32_t num_bytes) {
  std::byte* place = link.send_end().acquire();
  CHECK(place != nullptr);
  std::memset(place, static_cast<int>(number), num_bytes);
  link.send_end().publish(number, num_bytes);
}

void take(SocketLink& link, uint64_t number, uint32_t num_bytes) {
  const SlotHeader* message = link.receive_end().peek();
  CHECK(message != nullptr && message->signature == number && message->num_bytes == num_bytes, "message ", number);
  for (uint32_t k = 0; k < num_bytes; ++k)
    CHECK(link.receive_end().payload(message)[k] == static_cast<std::byte>(number), "byte ", k, " of message ", number);
  link.receive_end().release();
}

TEST(messages_of_any_length_pass_both_ways) {
  Pair pair;
  CHECK(pair.one.is_drained() && !pair.one.wants_to_write());
  for (uint32_t number = 0; number < 3 * (kShape.slot_bytes + 1); ++number) {
    const uint32_t length = number % (kShape.slot_bytes + 1);
    put(pair.one, number, length);
    put(pair.other, number + 7, kShape.slot_bytes - length);
    CHECK(!pair.one.is_drained() && pair.one.wants_to_write());
    pair.settle();
    CHECK(pair.one.is_drained() && pair.other.is_drained());
    take(pair.other, number, length);
    take(pair.one, number + 7, kShape.slot_bytes - length);
  }
  CHECK(pair.one.state() == State::open && pair.other.state() == State::open);
}

TEST(a_receiver_whose_slots_are_taken_leaves_the_rest_in_the_socket) {
  Pair pair;
  uint64_t given = 0, taken = 0;
  // As many as fit in the slots of both ends and in the socket between them.
  for (bool moved = true; moved;) {
    moved = false;
    while (pair.one.send_end().acquire() != nullptr) {
      put(pair.one, given++, kShape.slot_bytes);
      moved = true;
    }
    pair.settle();
  }
  CHECK(given > 2 * kShape.num_slots && pair.other.state() == State::open && !pair.one.is_drained());
  CHECK(!pair.other.wants_to_read() && pair.one.wants_to_read());
  for (; taken < given; ++taken) {
    take(pair.other, taken, kShape.slot_bytes);
    pair.settle();
  }
  CHECK(pair.one.is_drained() && pair.other.receive_end().peek() == nullptr);
}

TEST(two_threads_exchange_many_messages) {
  Pair pair;
  constexpr uint64_t kMessages = 20'000;
  const auto exchange = [](SocketLink& link) {
    const auto length = [](uint64_t number) { return static_cast<uint32_t>(number * 31 % (kShape.slot_bytes + 1)); };
    uint64_t given = 0, taken = 0;
    while (taken < kMessages || !link.is_drained()) {
      bool moved = link.pump();
      for (; given < kMessages && link.send_end().acquire() != nullptr; ++given) put(link, given, length(given));
      for (; taken < kMessages && link.receive_end().peek() != nullptr; ++taken) {
        take(link, taken, length(taken));
        moved = true;
      }
      if (!moved) sched_yield();
    }
  };
  std::thread far([&] { exchange(pair.other); });
  exchange(pair.one);
  far.join();
}

TEST(a_frame_that_comes_byte_by_byte_is_a_frame) {
  Exposed exposed;
  for (const char byte : frame(kMessage, kShape.slot_bytes, 5)) {
    CHECK(exposed.link.receive_end().peek() == nullptr);
    exposed.give({byte});
    exposed.link.pump();
  }
  const SlotHeader* message = exposed.link.receive_end().peek();
  CHECK(message != nullptr && message->signature == 5 && message->num_bytes == kShape.slot_bytes);
  CHECK(exposed.link.receive_end().payload(message)[0] == static_cast<std::byte>('x'));
}

TEST(bytes_that_are_no_frame_end_the_link_and_reach_no_slot) {
  const std::vector<std::vector<char>> strange = {
      frame(kMessage, 8, 1, kMagic + 1), frame(0, 0),
      frame(kFarewell + 1, 0),           frame(0xffffffff, 0),
      std::vector<char>(64, '\0'),       std::vector<char>(64, '\xff'),
  };
  for (const auto& bytes : strange) {
    Exposed exposed;
    exposed.give(bytes);
    exposed.pump_all();
    CHECK(exposed.link.state() == State::broken && exposed.link.reason() == "it sent bytes that are no frame");
    CHECK(exposed.link.receive_end().peek() == nullptr);
    exposed.give(frame(kMessage, 8, 1));
    CHECK(!exposed.link.pump() && exposed.link.receive_end().peek() == nullptr, "a broken link reads no more");
  }
}

TEST(lengths_are_refused_before_memory_is_taken) {
  const std::pair<uint32_t, uint32_t> oversize[] = {
      {kMessage, kShape.slot_bytes + 1},
      {kMessage, 0xffffffff},
      {kQuestion, 2049},
      {kStatus, 0xffffffff},
      {kFailure, 2049},
      {kFarewell, 1u << 31},
  };
  for (const auto& [kind, num_bytes] : oversize) {
    Exposed exposed;
    std::vector<char> bytes = frame(kind, 0);
    std::memcpy(bytes.data() + 8, &num_bytes, sizeof(num_bytes));
    exposed.give(bytes);
    exposed.pump_all();
    CHECK(exposed.link.state() == State::broken && exposed.link.receive_end().peek() == nullptr);
  }
}

TEST(the_longest_frames_are_taken) {
  Exposed exposed;
  exposed.give(frame(kMessage, kShape.slot_bytes, 3));
  exposed.give(frame(kFailure, 2048));
  exposed.pump_all();
  CHECK(exposed.link.state() == State::open);
  CHECK(exposed.link.receive_end().peek() != nullptr && exposed.link.failure().text.size() == 2048 - 8);
}

TEST(random_bytes_never_reach_a_slot_by_accident) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    Exposed exposed;
    std::vector<char> bytes;
    for (int k = 0; k < 6; ++k) {
      const auto next = frame(static_cast<uint32_t>(1 + random() % 5), static_cast<uint32_t>(random() % 300), random());
      bytes.insert(bytes.end(), next.begin(), next.end());
    }
    const size_t changed = random() % bytes.size();
    bytes[changed] = static_cast<char>(bytes[changed] ^ (1 + random() % 255));
    bytes.resize(random() % bytes.size());
    exposed.give(bytes);
    exposed.hang_up();
    int taken = 0;
    do {
      exposed.pump_all();
      for (; exposed.link.receive_end().peek() != nullptr; ++taken) exposed.link.receive_end().release();
    } while (exposed.link.pump() || exposed.link.receive_end().peek() != nullptr);
    CHECK(taken <= 6 && exposed.link.state() != State::open);
  }
}

TEST(questions_answers_and_failures_arrive) {
  Pair pair;
  CHECK(!pair.other.take_question() && pair.other.status().received == 0 && !pair.other.failure());
  pair.one.ask_status();
  CHECK(pair.one.wants_to_write());
  pair.settle();
  CHECK(pair.other.take_question() && !pair.other.take_question());

  pair.other.tell_status({11, 12, 0, Presence::inside, 3, "an all-reduce"});
  pair.settle();
  const RemoteStatus& status = pair.one.status();
  CHECK(status.call == 11 && status.signature == 12 && status.received > 0 && status.presence == Presence::inside);
  CHECK(status.suspect == 3 && status.description == "an all-reduce");

  pair.other.tell_failure({FailureKind::mismatch, 2, "calls differ"});
  pair.settle();
  CHECK(pair.one.failure().kind == FailureKind::mismatch && pair.one.failure().rank == 2);
  CHECK(pair.one.failure().text == "calls differ" && pair.one.state() == State::open);
}

TEST(long_texts_are_cut_and_short_frames_are_ignored) {
  Pair pair;
  pair.one.tell_failure({FailureKind::peer_lost, 1, std::string(10'000, 'z')});
  pair.one.tell_status({1, 1, 0, Presence::inside, -1, std::string(10'000, 'z')});
  pair.settle();
  CHECK(pair.other.state() == State::open);
  CHECK(pair.other.failure().text.size() < 2048 && pair.other.failure().text.size() > 1000);
  CHECK(pair.other.status().description.size() < 2048);

  Exposed exposed;
  exposed.give(frame(kStatus, 5));
  exposed.give(frame(kFailure, 0));
  exposed.pump_all();
  CHECK(exposed.link.status().received == 0 && !exposed.link.failure() && exposed.link.state() == State::open);
}

TEST(control_frames_pass_between_messages_of_a_full_link) {
  Pair pair;
  while (pair.one.send_end().acquire() != nullptr) put(pair.one, 1, kShape.slot_bytes);
  pair.one.pump();
  pair.one.ask_status();
  pair.settle();
  CHECK(pair.other.take_question());
}

// A rank that checks its peers asks again and again; what ends the communicator must get through all the same.
TEST(a_failure_and_a_farewell_are_not_lost_behind_many_questions) {
  Pair pair;
  for (int k = 0; k < 1000; ++k) pair.one.ask_status();
  pair.one.tell_failure({FailureKind::peer_lost, 1, "gone"});
  pair.one.tell_farewell();
  pair.settle();
  CHECK(pair.other.take_question());
  CHECK(pair.other.failure().text == "gone" && pair.other.state() == State::farewell);
}

TEST(of_several_states_told_the_last_one_counts) {
  Pair pair;
  for (uint64_t call = 1; call <= 100; ++call) pair.one.tell_status({call, call, 0, Presence::inside, -1, "a call"});
  pair.settle();
  CHECK(pair.other.status().call == 100);
}

TEST(an_end_without_a_farewell_breaks_the_link) {
  Exposed exposed;
  exposed.hang_up();
  exposed.pump_all();
  CHECK(exposed.link.state() == State::broken && exposed.link.reason() == "its connection ended");
  CHECK(!exposed.link.pump());
}

TEST(an_end_in_the_middle_of_a_message_breaks_the_link) {
  Exposed exposed;
  std::vector<char> bytes = frame(kMessage, 100, 1);
  bytes.resize(60);
  exposed.give(bytes);
  exposed.hang_up();
  exposed.pump_all();
  CHECK(exposed.link.state() == State::broken && exposed.link.receive_end().peek() == nullptr);
}

TEST(what_was_sent_before_the_end_still_arrives) {
  Exposed exposed;
  exposed.give(frame(kMessage, 8, 1));
  exposed.give(frame(kMessage, 8, 2));
  exposed.hang_up();
  exposed.pump_all();
  for (const uint64_t number : {1, 2}) {
    const SlotHeader* message = exposed.link.receive_end().peek();
    CHECK(message != nullptr && message->signature == number);
    exposed.link.receive_end().release();
  }
}

TEST(after_a_farewell_the_end_is_no_loss) {
  Exposed exposed;
  exposed.give(frame(kMessage, 8, 1));
  exposed.give(frame(kFarewell, 0));
  exposed.hang_up();
  exposed.pump_all();
  CHECK(exposed.link.state() == State::farewell && exposed.link.has_ended());
  CHECK(exposed.link.receive_end().peek() != nullptr && !exposed.link.wants_to_read());
}

TEST(what_is_sent_to_a_peer_that_has_left_is_lost_for_that_reason) {
  Exposed exposed;
  exposed.give(frame(kFarewell, 0));
  exposed.hang_up();
  put(exposed.link, 1, 100);
  exposed.pump_all();
  CHECK(exposed.link.state() == State::broken && exposed.link.reason() == "it has closed its communicator");
}

TEST(writing_to_a_peer_that_is_gone_breaks_the_link_and_kills_nobody) {
  Exposed exposed;
  exposed.hang_up();
  put(exposed.link, 1, 100);
  exposed.pump_all();
  CHECK(exposed.link.state() == State::broken && !exposed.link.reason().empty());
}

TEST(a_link_that_finishes_has_delivered_everything) {
  Pair pair;
  put(pair.one, 1, 100);
  pair.one.tell_farewell();
  pair.other.ask_status();  // nobody reads it, and what was sent before arrives all the same
  pair.other.pump();
  while (!pair.one.is_drained()) pair.one.pump();
  for (int k = 0; !pair.one.finish(); ++k) {
    CHECK(k < 1000);
    pair.other.pump();
  }
  pair.one.drop();
  pump_all(pair.other);
  take(pair.other, 1, 100);
  CHECK(pair.other.state() == State::farewell && pair.other.has_ended());
}

TEST(a_dropped_link_closes_its_socket_without_a_word) {
  Sockets sockets;
  SocketLink link(sockets.ends[0], kShape);
  link.drop();
  CHECK(link.state() == State::broken && !link.pump());
  char byte;
  CHECK(read(sockets.ends[1], &byte, 1) == 0);
  close(sockets.ends[1]);
}

TEST(a_link_needs_a_socket) {
  const int closed = dup(0);
  close(closed);
  bool refused = false;
  try {
    const SocketLink link(closed, kShape);
  } catch (const std::exception&) {
    refused = true;
  }
  CHECK(refused);
}

}  // namespace
}  // namespace hemiola::test
