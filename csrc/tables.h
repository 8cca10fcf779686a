// The rows of every table, laid out as the NumPy dtypes of hemiola.ir; both sides share the memory.
#pragma once

#include <array>
#include <cstdint>

namespace hemiola {

enum class Opcode : uint8_t {
#define OPCODE(name, ...) name,
#include "opcodes.def"
#undef OPCODE
};

struct OpcodeTraits {
  const char* name;
  bool receives, reads_source, reads_destination, writes_destination, sends;
};

inline constexpr std::array kOpcodeTraits = {
#define OPCODE(name, ...) OpcodeTraits{#name, __VA_ARGS__},
#include "opcodes.def"
#undef OPCODE
};

inline constexpr const OpcodeTraits& traits(Opcode opcode) {
  return kOpcodeTraits[static_cast<size_t>(opcode)];
}

enum class Kind : uint16_t { copy = 0, reduce = 1 };

inline constexpr uint32_t kScratch = 2;
inline constexpr int32_t kAutomatic = -1;
inline constexpr int32_t kNoPeer = -1;
inline constexpr uint32_t kNone = 0xffffffff;

// collectives.HOLDING and collectives.PROMISE
struct Holding {
  uint32_t rank, buffer, index, count, input_index;
};
struct Promise {
  uint32_t rank, buffer, index, count, input_index, set;
};

// ir.chunk_dag.OPERATION
struct Operation {
  uint16_t kind, src_buffer, dst_buffer, reserved;
  uint32_t src_rank, src_index, dst_rank, dst_index, count;
  int32_t channel, send_threadblock, recv_threadblock;
  uint32_t parallel, instance, line;
};

// ir.chunk_dag.MOVE
struct Move {
  int32_t kind, src_rank, src_buffer, src_index, dst_rank, dst_buffer, dst_index, count;
};

// ir.instruction_dag.INSTRUCTION
struct Instruction {
  Opcode opcode;
  uint8_t src_buffer, dst_buffer, reserved;
  uint32_t rank, src_index, dst_index, count;
  uint32_t recv_operation, send_operation;
  int32_t send_peer, recv_peer, channel, threadblock;
  uint32_t instance, line;
};

// ir.plan.RANK, THREADBLOCK, STEP, DEPENDENCY
struct Rank {
  uint32_t input_chunks, output_chunks, scratch_chunks, first_threadblock;
};
struct Threadblock {
  uint32_t rank;
  int32_t send_peer, recv_peer;
  uint32_t channel, first_step;
};
struct Step {
  Opcode opcode;
  uint8_t src_buffer, dst_buffer, reserved;
  uint32_t src_index, dst_index, count, first_dependency, line;
};
struct Dependency {
  uint32_t threadblock, step;
};

static_assert(sizeof(Holding) == 20 && sizeof(Promise) == 24 && sizeof(Move) == 32);
static_assert(sizeof(Operation) == 52 && sizeof(Instruction) == 52);
static_assert(sizeof(Rank) == 16 && sizeof(Threadblock) == 20 && sizeof(Step) == 24);
static_assert(sizeof(Dependency) == 8);

}  // namespace hemiola
