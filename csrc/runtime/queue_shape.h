// How the memory of a queue is cut: lines, pages, slots, and the buffers of their payloads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hemiola::runtime {

inline constexpr size_t kLine = 64;
inline constexpr size_t kPage = 4096;

// Connections from one rank to another; a plan with more channels between a pair is refused.
inline constexpr uint32_t kMaxConnections = 64;

struct QueueShape {
  uint32_t num_slots;
  uint32_t slot_bytes;

  // A header, and space for a payload that need not begin a line.
  size_t stride() const { return 2 * kLine + slot_bytes; }
  size_t slot_offset(uint64_t slot) const { return 2 * kLine + slot * stride(); }
  size_t buffer_offset(uint64_t slot) const { return slot_offset(slot) + kLine; }
  // Whole pages, so that each end can map a queue on its own.
  size_t num_bytes() const { return (slot_offset(num_slots) + kPage - 1) / kPage * kPage; }
};

}  // namespace hemiola::runtime
