// The page at the front of a rank's segment: what its peers on the host may know and do to it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "runtime/queue.h"

namespace hemiola::runtime {

enum class FailureKind : uint32_t {
#define FAILURE_KIND(name) name,
#include "runtime/failure_kinds.def"
#undef FAILURE_KIND
};

struct Failure {
  FailureKind kind = FailureKind::none;
  int32_t rank = -1;  // of the peer that was lost
  std::string text;

  explicit operator bool() const { return kind != FailureKind::none; }
};

// Text that is written and read at the same time: word by word, so that nobody reads a torn word.
template <size_t kWords>
class SharedText {
 public:
  static constexpr size_t kBytes = kWords * sizeof(uint64_t);

  void write(std::string_view text) {
    for (size_t k = 0; k < kWords; ++k) {
      uint64_t word = 0;
      if (k * sizeof(word) < text.size())
        std::memcpy(&word, text.data() + k * sizeof(word), std::min(sizeof(word), text.size() - k * sizeof(word)));
      words_[k].store(word, std::memory_order_relaxed);
      if (word == 0) break;
    }
  }

  std::string read() const {
    std::array<char, kBytes + 1> text{};
    for (size_t k = 0; k < kWords; ++k) {
      const uint64_t word = words_[k].load(std::memory_order_relaxed);
      std::memcpy(text.data() + k * sizeof(word), &word, sizeof(word));
      if (word == 0) break;
    }
    return text.data();
  }

 private:
  std::array<std::atomic<uint64_t>, kWords> words_;
};

// Outside of calls, inside one, about to enter one but still making links for it, or gone.
enum class Presence : uint32_t { outside, inside, linking, left };

struct Board {
  // The bell: whoever has news for a rank that sleeps raises `bell` and wakes it.
  alignas(kLine) std::atomic<uint32_t> bell;
  std::atomic<uint32_t> sleepers;
  std::atomic<uint32_t> polls;  // how many of them sleep in a poll, which only their pipe wakes

  // A failure that ends the communicator, written once by whoever saw it first: 0 none, 1 being written, 2 there.
  alignas(kLine) std::atomic<uint32_t> failed;
  std::atomic<uint32_t> failure_kind;
  std::atomic<int32_t> failure_rank;
  SharedText<128> failure_text;

  // What the rank is doing.
  alignas(kLine) std::atomic<uint64_t> call;  // number of the current or last call
  std::atomic<uint64_t> signatures[2];        // of that call and the one before, by the number's parity
  std::atomic<Presence> presence;
  std::atomic<int32_t> suspect;    // the rank for which, in the end, this one waits; -1 when not known
  std::atomic<int64_t> heartbeat;  // monotonic nanoseconds of the last sign of life
  SharedText<32> description;      // of the call, for messages
};
static_assert(sizeof(Board) <= kPage);

// How to wake a rank of this host: at its board, and through its pipe where it polls sockets.
struct Bell {
  Board* board = nullptr;
  int pipe = -1;

  // Wakes whoever sleeps there; called after the news is published. Nothing for a rank of another host.
  void ring() const {
    if (board != nullptr && board->sleepers.load(std::memory_order_seq_cst) != 0) [[unlikely]]
      wake();
  }

 private:
  void wake() const;
};

}  // namespace hemiola::runtime
