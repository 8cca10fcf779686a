// How the slots of a connection are written: past the caches until writing through them has been seen to be quick.
#include "runtime/slot_writing.h"

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "test/check.h"

namespace hemiola::test {
namespace {

using runtime::SlotWriting;

constexpr size_t kMessage = 64 << 10;
constexpr int kPeriod = 96, kSamples = 3;

struct Piece {
  size_t begin, num_bytes;
  bool stream;
};

// Writes a message whose pieces through the caches take so long each, and returns them.
std::vector<Piece> write(SlotWriting& writing, size_t num_bytes, std::chrono::milliseconds cached = {}) {
  std::vector<Piece> pieces;
  writing.write_copy(num_bytes, [&](size_t begin, size_t size, bool stream) {
    pieces.push_back({begin, size, stream});
    if (!stream && cached.count() > 0) std::this_thread::sleep_for(cached);
  });
  return pieces;
}

TEST(nothing_known_goes_past_the_caches) { CHECK(SlotWriting().streams()); }

TEST(quick_caches_are_used_after_a_few_samples) {
  SlotWriting writing;
  for (int k = 0; k < kSamples; ++k) write(writing, kMessage);
  CHECK(!writing.streams());
}

TEST(slow_caches_are_not_used_and_asked_again_later) {
  using namespace std::chrono_literals;
  SlotWriting writing;
  for (int k = 0; k < kSamples; ++k) write(writing, kMessage, 1ms);
  CHECK(writing.streams());
  for (int k = kSamples; k < kPeriod; ++k) CHECK(write(writing, kMessage).size() == 1, "message ", k, " was measured");
  CHECK(writing.streams());
  for (int k = 0; k < kSamples; ++k) write(writing, kMessage);
  CHECK(!writing.streams());
}

TEST(one_interrupted_sample_says_nothing) {
  using namespace std::chrono_literals;
  SlotWriting writing;
  for (int k = 0; k < kSamples; ++k) write(writing, kMessage, k == 1 ? 1ms : 0ms);
  CHECK(!writing.streams());
}

TEST(every_byte_is_written_once_whatever_is_measured) {
  SlotWriting writing;
  for (const size_t num_bytes : {size_t{0}, size_t{1}, size_t{8191}, size_t{8192}, size_t{16384}, size_t{16385}, kMessage})
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
