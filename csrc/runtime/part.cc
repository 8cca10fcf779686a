#include "runtime/part.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "enforce.h"

namespace hemiola::runtime {

namespace {

// Which chunks of the rank's memory any of its steps reads.
class Readers {
 public:
  explicit Readers(const Part& part) : part_(part) {
    for (const PartStep& step : part.steps) {
      const OpcodeTraits& acts = traits(step.opcode);
      if (acts.reads_source) note(step.src_buffer, step.src_index, step.count);
      if (acts.reads_destination) note(step.dst_buffer, step.dst_index, step.count);
    }
  }

  bool read_destination(const PartStep& step) const {
    for (uint32_t chunk = 0; chunk < step.count; ++chunk)
      if (chunks_.contains(place(step.dst_buffer, step.dst_index + chunk))) return true;
    return false;
  }

 private:
  uint64_t place(uint32_t buffer, uint64_t index) const {
    if (static_cast<int32_t>(buffer) == part_.shape.alias_source) {
      buffer = 1 - buffer;
      index += part_.shape.alias_offset;
    }
    return uint64_t{buffer} << 40 | index;
  }

  void note(uint32_t buffer, uint32_t index, uint32_t count) {
    for (uint32_t chunk = 0; chunk < count; ++chunk) chunks_.insert(place(buffer, index + chunk));
  }

  const Part& part_;
  std::unordered_set<uint64_t> chunks_;
};

// The rows of `connections` for the channels that this rank's threadblocks really use, per peer in order.
class Numbering {
 public:
  void use(int32_t peer, uint32_t channel) { channels_[peer].push_back(channel); }

  void close(std::vector<Connection>& connections) {
    for (auto& [peer, channels] : channels_) {
      std::sort(channels.begin(), channels.end());
      channels.erase(std::unique(channels.begin(), channels.end()), channels.end());
      first_[peer] = static_cast<uint32_t>(connections.size());
      for (uint32_t index = 0; index < channels.size(); ++index)
        connections.push_back({static_cast<uint32_t>(peer), index});
    }
  }

  int32_t row(int32_t peer, uint32_t channel) const {
    const auto& channels = channels_.at(peer);
    const auto found = std::lower_bound(channels.begin(), channels.end(), channel);
    return static_cast<int32_t>(first_.at(peer) + (found - channels.begin()));
  }

 private:
  std::map<int32_t, std::vector<uint32_t>> channels_;
  std::map<int32_t, uint32_t> first_;
};

struct Use {
  bool sends = false, receives = false;
};

}  // namespace

Cut cut_of(const PlanView& plan, uint32_t block_chunks) {
  Cut cut{block_chunks};
  for (const Step& step : plan.steps)
    if (traits(step.opcode).sends || traits(step.opcode).receives) cut.max_count = std::max(cut.max_count, step.count);
  std::vector<uint32_t> num_senders(plan.ranks.size());
  for (const Threadblock& block : plan.threadblocks)
    if (block.send_peer != kNoPeer) cut.max_sends = std::max(cut.max_sends, ++num_senders[block.rank]);
  return cut;
}

Part take_part(const PlanView& plan, const PartShape& shape) {
  ENFORCE(shape.rank < plan.ranks.size() && shape.block_chunks > 0);
  Part part;
  part.shape = shape;
  const Rank& rank = plan.ranks[shape.rank];
  part.num_chunks[0] = rank.input_chunks;
  part.num_chunks[1] = rank.output_chunks;
  part.num_chunks[2] = rank.scratch_chunks;

  const uint32_t first_block = rank.first_threadblock, last_block = plan.end_of_rank(shape.rank);

  const Cut cut = cut_of(plan, shape.block_chunks);
  part.max_count = cut.max_count;
  part.max_sends = cut.max_sends;
  for (const Threadblock& block : plan.threadblocks)
    part.every_receiver_sends &= block.recv_peer == kNoPeer || block.send_peer != kNoPeer;

  std::vector<Use> uses;
  Numbering sending, receiving;
  for (uint32_t row = first_block; row < last_block; ++row) {
    const Threadblock& block = plan.threadblocks[row];
    const uint32_t first = block.first_step, last = plan.end_of_block(row);
    part.blocks.push_back({static_cast<uint32_t>(part.steps.size()), last - first, -1, -1});
    Use use;
    for (uint32_t k = first; k < last; ++k) {
      const Step& step = plan.steps[k];
      const std::span<const Dependency> waits = plan.waits(k);
      part.steps.push_back({step.opcode, step.src_buffer, step.dst_buffer, false, step.src_index, step.dst_index,
                            step.count, static_cast<uint32_t>(part.dependencies.size()),
                            static_cast<uint32_t>(waits.size())});
      part.dependencies.insert(part.dependencies.end(), waits.begin(), waits.end());
      use.sends |= traits(step.opcode).sends;
      use.receives |= traits(step.opcode).receives;
    }
    if (use.sends) sending.use(block.send_peer, block.channel);
    if (use.receives) receiving.use(block.recv_peer, block.channel);
    uses.push_back(use);
  }
  sending.close(part.sends);
  receiving.close(part.receives);
  for (size_t k = 0; k < part.blocks.size(); ++k) {
    const Threadblock& block = plan.threadblocks[first_block + k];
    if (uses[k].sends) part.blocks[k].send_connection = sending.row(block.send_peer, block.channel);
    if (uses[k].receives) part.blocks[k].receive_connection = receiving.row(block.recv_peer, block.channel);
  }

  const Readers readers(part);
  for (PartStep& step : part.steps)
    step.stream = traits(step.opcode).writes_destination && !readers.read_destination(step);
  return part;
}

}  // namespace hemiola::runtime
