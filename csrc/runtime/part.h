// One rank's part of a plan, with its connections numbered and what the executor needs of each step at hand.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "plan_view.h"
#include "runtime/queue.h"
#include "runtime/tiles.h"
#include "tables.h"

namespace hemiola::runtime {

// How a rank's buffers lie in memory, beyond what the tables say.
struct PartShape {
  uint32_t rank;
  uint32_t block_chunks;      // chunks of one rank's share: the unit whose elements need not divide evenly
  int32_t alias_source = -1;  // in place: this buffer's chunk i ...
  uint32_t alias_offset = 0;  // ... is the other one's chunk alias_offset + i
};

// A connection of this rank: the index-th between the pair in that direction. Both ends count alike, because
// each counts the channels that its threadblocks use, in increasing order.
struct Connection {
  uint32_t peer, index;
};

struct PartStep {
  Opcode opcode;
  uint8_t src_buffer, dst_buffer;
  bool stream;  // no step of this rank reads the destination: not afterwards, nor, in place, shortly before
  uint32_t src_index, dst_index, count, first_dependency, num_dependencies;
};

struct PartBlock {
  uint32_t first_step, num_steps;
  int32_t send_connection, receive_connection;  // rows of Part::sends and Part::receives; -1: none
};

struct Part {
  PartShape shape;
  uint32_t num_chunks[3];                 // of input, output and scratch, as stored
  uint32_t max_count = 1, max_sends = 1;  // as in Cut
  bool every_receiver_sends = true;       // every threadblock of any rank that receives also sends
  std::vector<PartBlock> blocks;
  std::vector<PartStep> steps;
  std::vector<Dependency> dependencies;
  std::vector<Connection> sends, receives;

  Cut cut() const { return {shape.block_chunks, max_count, max_sends}; }
};

// How a plan's data is cut, over all its ranks.
Cut cut_of(const PlanView& plan, uint32_t block_chunks);

// The tables must obey the plan's form (ir.form) and their verdict.
Part take_part(const PlanView& plan, const PartShape& shape);

}  // namespace hemiola::runtime
