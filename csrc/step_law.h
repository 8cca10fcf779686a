// The law of when a step may run, for all who step a plan: the proof, both replays of the simulator and the executor.
//
// A step of a tile runs after the step before it in its threadblock, as soon as (1) every step that it depends on has
// ended in the same tile, (2) a message is there, if it receives, and (3) a slot is free, if it sends. A slot is free
// again when the step that receives its message has ended.
//
// Two places follow the law without these functions. The queues of the runtime (runtime/queue.h) keep (2) and (3) in
// memory that two processes share, where a slot's own number says that its message is there. The pass order_steps
// works on halves of operations, before there are threadblocks, steps or dependencies; its slots count chunks.
#pragma once

#include <compare>
#include <cstdint>

namespace hemiola {

// A step of a tile. As the progress of a threadblock: the next one, before which all have ended.
struct StepOfTile {
  uint64_t tile, step;
  auto operator<=>(const StepOfTile&) const = default;
};

constexpr bool has_ended(StepOfTile awaited, StepOfTile next) { return awaited < next; }
// The same where progress is counted in steps over all tiles, of which the awaited threadblock has `num_steps` each.
constexpr bool has_ended(StepOfTile awaited, uint64_t num_steps, uint64_t num_ended) {
  return awaited.tile * num_steps + awaited.step < num_ended;
}

// Both count the messages of a connection since its beginning.
constexpr bool has_message(uint64_t num_sent, uint64_t num_received) { return num_sent != num_received; }
constexpr bool has_slot(uint64_t num_sent, uint64_t num_received, uint64_t slots) {
  return num_sent - num_received < slots;
}

}  // namespace hemiola
