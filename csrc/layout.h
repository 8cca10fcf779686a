// Layout: one number for every chunk of every buffer of every rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "enforce.h"

namespace hemiola {

class Layout {
 public:
  // `chunks` has input, output and scratch sizes of rank 0, then of rank 1, and so on.
  explicit Layout(std::span<const uint32_t> chunks) : base_(chunks.size() + 1, 0) {
    ENFORCE(chunks.size() % 3 == 0);
    for (size_t i = 0; i < chunks.size(); ++i) base_[i + 1] = base_[i] + chunks[i];
    ENFORCE(base_.back() < 0xffffffff, "a plan has at most 2^32 - 1 chunks, not ", base_.back());
  }

  uint32_t num_ranks() const { return static_cast<uint32_t>(base_.size() / 3); }
  uint32_t size() const { return static_cast<uint32_t>(base_.back()); }
  uint32_t at(uint32_t rank, uint32_t buffer, uint32_t index) const {
    return static_cast<uint32_t>(base_[3 * size_t{rank} + buffer]) + index;
  }
  uint32_t chunks(uint32_t rank, uint32_t buffer) const {
    const size_t i = 3 * size_t{rank} + buffer;
    return static_cast<uint32_t>(base_[i + 1] - base_[i]);
  }

 private:
  std::vector<uint64_t> base_;
};

}  // namespace hemiola
