#include "runtime/payload_buffers.h"

#include "enforce.h"

namespace hemiola::runtime {

PayloadBuffers::PayloadBuffers(uint32_t num_ranks, QueueShape shape)
    : num_ranks_(num_ranks), shape_(shape), segments_(num_ranks, -1) {}

std::byte* PayloadBuffers::queue_memory(uint64_t queue) {
  const std::lock_guard lock(mapping_);
  const auto found = queues_.find(queue);
  if (found != queues_.end()) return found->second.data();
  const uint64_t queues_of_rank = uint64_t{num_ranks_} * kMaxConnections;
  const uint64_t rank = queue / queues_of_rank;
  ENFORCE(rank < num_ranks_ && segments_[rank] >= 0, "no memory is shared for queue ", queue);
  const size_t offset = kPage + queue % queues_of_rank * shape_.num_bytes();
  return queues_.emplace(queue, Mapping(segments_[rank], offset, shape_.num_bytes())).first->second.data();
}

void PayloadBuffers::clear() {
  const std::lock_guard lock(mapping_);
  queues_.clear();
  segments_.assign(num_ranks_, -1);
}

}  // namespace hemiola::runtime
