// How the slots of a connection are written: through the caches unless that has been seen to be slow.
#include "runtime/slot_writing.h"

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "test/check.h"

namespace hemiola::test {
namespace {

using runtime::SlotWriting;

using namespace std::chrono_literals;

constexpr size_t kSmall = (48 << 10) - 1, kMessage = 48 << 10;
constexpr int kPeriod = 96, kSamples = 3, kFirst = 8;

struct Piece {
  size_t begin, num_bytes;
  bool stream;
};

// Writes a message whose pieces take so long each through the caches and past them, and returns them.
std::vector<Piece> write(SlotWriting& writing, size_t num_bytes, std::chrono::milliseconds cached = 0ms,
                         std::chrono::milliseconds streamed = 0ms) {
  std::vector<Piece> pieces;
  writing.write(num_bytes, [&](size_t begin, size_t size, bool stream) {
    pieces.push_back({begin, size, stream});
    if (const auto time = stream ? streamed : cached; time > 0ms) std::this_thread::sleep_for(time);
  });
  return pieces;
}

// One whose next message is measured.
SlotWriting about_to_measure() {
  SlotWriting writing;
  for (int k = 0; k < kFirst; ++k) CHECK(write(writing, kMessage).size() == 1, "message ", k, " was measured");
  return writing;
}

TEST(nothing_known_goes_through_the_caches) { CHECK(!SlotWriting().streams(kMessage)); }

TEST(slow_caches_are_not_used_and_asked_again_later) {
  SlotWriting writing = about_to_measure();
  for (int k = 0; k < kSamples; ++k) write(writing, kMessage, 1ms);
  CHECK(writing.streams(kMessage));
  for (int k = kSamples; k < kPeriod; ++k) {
    const std::vector<Piece> pieces = write(writing, kMessage);
    CHECK(pieces.size() == 1 && pieces[0].stream, "message ", k, " was measured");
  }
  for (int k = 0; k < kSamples; ++k) write(writing, kMessage, 0ms, 1ms);
  CHECK(!writing.streams(kMessage));
}

TEST(small_messages_go_through_the_caches_and_are_not_measured) {
  SlotWriting writing = about_to_measure();
  for (int k = 0; k < 2 * kPeriod; ++k) CHECK(write(writing, kSmall).size() == 1);
  for (int k = 0; k < kSamples; ++k) write(writing, kMessage, 1ms);
  CHECK(writing.streams(kMessage) && !writing.streams(kSmall));
}

TEST(one_interrupted_sample_says_nothing) {
  SlotWriting writing = about_to_measure();
  for (int k = 0; k < kSamples; ++k) write(writing, kMessage, k == 1 ? 5ms : 0ms, 1ms);
  CHECK(!writing.streams(kMessage));
}

TEST(every_byte_is_written_once_whatever_is_measured) {
  SlotWriting writing;
  for (const size_t num_bytes : {size_t{0}, size_t{1}, kSmall, kMessage, kMessage + 1, 2 * kMessage})
    for (int k = 0; k < 2 * kPeriod; ++k) {
      size_t end = 0;
      for (const Piece& piece : write(writing, num_bytes)) {
        CHECK(piece.begin == end && piece.num_bytes > 0);
        end += piece.num_bytes;
      }
      CHECK(end == num_bytes);
    }
}

}  // namespace
}  // namespace hemiola::test
