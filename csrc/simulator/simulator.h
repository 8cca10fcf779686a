// Times plans: replays their tables for a size on a network, threadblock by threadblock and tile by tile.
//
// A step of one tile waits for its dependencies, its message and a slot, then acts: a fixed time for every
// message that it sends, and the work of adding or copying its bytes, at which threadblocks of a device and
// of a host share what there is. What it sends goes through its connection, one message after another, at
// the rate that the links of the route give it, and is there a latency later. A slot is free again when the
// receiving step has ended. All that goes on at once shares every resource max-min fairly.
//
// A threadblock whose sends are direct stores into its peer's memory: sending is its work, which takes the links and
// what its device shares at once and lasts until the last byte has left.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan_view.h"

namespace hemiola::simulator {

// One plan with the data that it moves. Everything that is given per threadblock has a row for each one of all
// jobs, in order.
struct Job {
  PlanView plan;
  std::span<const double> tile_bytes;  // of one chunk, in every tile
  double step_seconds;                 // of a message, beside its bytes
  double threadblock_bandwidth;
  double send_bandwidth, receive_bandwidth;  // the same of direct sends, and of steps that receive
  double launch_seconds = 0;                 // before the first step
  std::span<const double> act_seconds = {};  // of every step of the plan, whatever it does; nothing where this is empty

  double act_seconds_of(uint32_t step) const { return act_seconds.empty() ? 0 : act_seconds[step]; }
};

inline constexpr int32_t kNoResource = -1;

// What the threadblocks of a rank share when they work; kNoResource where there is no limit.
struct WorkResources {
  int32_t add[2], copy[2];
};

struct Setting {
  std::span<const double> capacities;        // of all resources
  std::span<const int64_t> first_hop, hops;  // per threadblock: the resources that its messages take
  std::span<const double> latencies;         // per threadblock: of its messages
  std::span<const WorkResources> work;       // per threadblock
  std::span<const double> message_bytes;     // per threadblock: what a message takes of its links beside its data
  std::span<const uint8_t> direct;           // per threadblock: whether sending is work
  uint32_t slots;
};

struct Options {
  bool fold = true;           // simulate one of those that are provably alike
  uint64_t most_records = 0;  // where no more steps of tiles than this are simulated, all are kept
  bool events = false;        // always by events, also where nothing is shared
};

// What a step waited for last.
enum class Cause : uint32_t {
#define CAUSE(name) name,
#include "simulator/causes.def"
#undef CAUSE
};

enum class PathPieceKind : uint32_t {
#define PATH_PIECE(name) name,
#include "simulator/path_pieces.def"
#undef PATH_PIECE
};

#define HEMIOLA_ROWS "simulator/tables.def"
#include "row_structs.inc"

struct Result {
  bool ended = false;
  double seconds = 0;
  std::vector<double> block_seconds;  // when every threadblock has finished, of all jobs
  std::vector<uint32_t> block_class;  // the threadblock that stands for each one
  std::vector<uint32_t> resource_class;
  uint64_t num_simulated = 0;  // steps of tiles
  bool by_events = false;
  std::vector<Record> records;  // of the threadblocks that stand for themselves, in order
  std::vector<PathPiece> path;  // from the end to the beginning
};

Result simulate(std::span<const Job> jobs, const Setting& setting, const Options& options);

}  // namespace hemiola::simulator
