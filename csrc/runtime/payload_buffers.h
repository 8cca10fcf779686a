// Where the payloads of messages lie on a host: a payload buffer for each slot of each queue, in the segment of the
// queue's receiver, mapped when it is first needed.
//
// Payload buffers have numbers that mean the same to all ranks, because they move: a message that is forwarded from one
// queue to another takes its buffer along (queue.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/mapping.h"
#include "runtime/queue_shape.h"

namespace hemiola::runtime {

class PayloadBuffers {
 public:
  PayloadBuffers(uint32_t num_ranks, QueueShape shape);

  // A page for the board of a rank, then the queues in which it receives.
  size_t segment_bytes() const { return kPage + size_t{num_ranks_} * kMaxConnections * shape_.num_bytes(); }
  // The descriptor stays the caller's, and open for as long as buffers are asked for.
  void set_segment(uint32_t rank, int fd) { segments_[rank] = fd; }

  // A queue by its number, and the number of its first buffer.
  uint64_t queue(uint32_t receiver, uint32_t sender, uint32_t index) const {
    return (uint64_t{receiver} * num_ranks_ + sender) * kMaxConnections + index;
  }
  uint64_t first_buffer(uint64_t queue) const { return queue * shape_.num_slots; }

  // From any thread; the memory stays where it is until clear().
  std::byte* queue_memory(uint64_t queue);
  std::byte* at(uint64_t buffer) {
    return queue_memory(buffer / shape_.num_slots) + shape_.buffer_offset(buffer % shape_.num_slots);
  }

  void clear();

  // Around a fork: a child must not find them half changed by a thread that it does not have.
  void lock() { mapping_.lock(); }
  void unlock() { mapping_.unlock(); }

 private:
  uint32_t num_ranks_;
  QueueShape shape_;
  std::vector<int> segments_;
  std::mutex mapping_;
  std::unordered_map<uint64_t, Mapping> queues_;
};

}  // namespace hemiola::runtime
