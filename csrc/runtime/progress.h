// How far the threadblocks of a rank are in a run.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "runtime/board.h"
#include "runtime/part.h"
#include "runtime/queue.h"

namespace hemiola::runtime {

// A threadblock of this rank while it runs: the next step and tile, and where its messages go.
struct alignas(kLine) Progress {
  std::atomic<uint64_t> finished{0};  // steps over all tiles; other threadblocks wait for it
  uint64_t tile = 0;
  uint32_t step = 0;
  const PartStep* steps = nullptr;
  uint32_t num_steps = 0;
  SendEnd* send = nullptr;
  ReceiveEnd* receive = nullptr;
  Bell send_bell, receive_bell;
  uint32_t send_peer = 0, receive_peer = 0;
  bool shares_memory = false;  // with the rank to which it sends
  bool can_forward = false;    // it also receives from a rank of this host

  bool is_done(uint64_t num_tiles) const { return num_steps == 0 || tile == num_tiles; }
};

// What a run notes of its threadblocks and workers, in memory that the next run uses again: small calls are over
// sooner than memory is found for them.
struct RunNotes {
  std::vector<Progress> progress;
  std::vector<std::atomic<uint64_t>> passes;  // over its threadblocks, by worker

  void clear(size_t num_blocks, size_t num_workers) {
    clear(progress, num_blocks);
    clear(passes, num_workers);
  }

 private:
  template <typename Note>
  static void clear(std::vector<Note>& notes, size_t size) {
    static_assert(std::is_trivially_destructible_v<Note>);
    if (notes.size() != size)
      notes = std::vector<Note>(size);
    else
      for (Note& note : notes) std::construct_at(&note);
  }
};

}  // namespace hemiola::runtime
