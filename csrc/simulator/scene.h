// A scene: what is simulated, after threadblocks that are alike have been folded into one.
#pragma once

#include <vector>

#include "simulator/simulator.h"

namespace hemiola::simulator {

// Who sends to whom, over all jobs: rows are threadblocks, a connection has the row of its sender.
struct Wiring {
  struct Block {
    uint32_t job, row, rank;         // its place in its own plan
    uint32_t first_of_rank;          // the first threadblock of its rank, over all jobs
    uint32_t first_step, num_steps;  // in its own plan
    bool sends = false, receives = false, adds = false, copies = false;
    bool sends_sums = false, takes = false, takes_sums = false;  // adds and sends at once; copies or adds what comes in
  };
  std::vector<Block> blocks;
  std::vector<uint32_t> receiver;  // of what a block sends, or kNone
  std::vector<uint32_t> sender;    // of what a block receives, or kNone

  static Wiring of(std::span<const Job> jobs);
};

enum class Work : uint8_t { none, add, copy };

// What a step does besides moving messages.
Work work_of(const Step& step);

// Which threadblock stands for each one; their number is the first of them that is alike.
struct Folding {
  std::vector<uint32_t> block_class;     // block -> representing block
  std::vector<uint32_t> resource_class;  // resource -> representing resource

  static Folding none(size_t num_blocks, size_t num_resources);
};

struct FoldingRequest {
  std::span<const uint32_t> tile_kinds;  // of every job: those with equal numbers have the same tiles
  uint64_t num_events;                   // steps of tiles without folding: how much looking for it may cost
};

// The coarsest folding that is provably exact, or none at all where that is not found quickly.
Folding fold(std::span<const Job> jobs, const Setting& setting, const Wiring& wiring, const FoldingRequest& request);

// Breaks where the arrays of a setting are not as long as there are threadblocks.
void check_sizes(const Setting& setting, const Wiring& wiring);

struct SceneStep {
  uint32_t count;
  uint32_t first_wait, num_waits;
  uint32_t awaited;  // row in the ends that others wait for, or kNone
  bool receives, sends;
  Work work;
  double act_seconds;  // beside its work and its message
};

struct Wait {
  uint32_t block, step;
};

struct Use {
  uint32_t resource;
  double weight;  // flows of which this one stands for several
};

// Something that moves bytes, one lot at a time: a connection, or a threadblock that adds or copies.
struct Source {
  uint32_t first_use = 0, num_uses = 0;  // resources at which it may meet others
  double cap = 0;                        // its rate where nobody else is met, infinite where nothing limits it
  int32_t limit = kNoResource;           // what sets the cap
  uint32_t alike = 0;                    // the first source with the same uses and cap
  bool is_fixed() const { return num_uses == 0; }
};

struct SceneBlock {
  uint32_t job;
  uint32_t first_step, num_steps;
  uint32_t original;          // its row over all jobs
  uint32_t sender, receiver;  // of its incoming and for its outgoing messages, or kNone
  uint32_t first_tile, num_tiles;
  double step_seconds, launch_seconds, latency;
  double message_bytes;                                // that a message takes of its links beside its data
  bool direct;                                         // sending is the work of a step that sends
  uint32_t send, send_sum, take, take_sum, add, copy;  // its sources: of sends, of what comes in, and of the others

  // What a step takes before its work.
  double overhead(const SceneStep& step) const { return step.act_seconds + (step.sends ? step_seconds : 0); }
  bool is_direct(const SceneStep& step) const { return direct && step.sends; }
  // Of the work of a step, or kNone.
  uint32_t work_source(const SceneStep& step) const {
    if (is_direct(step)) return step.work == Work::add ? send_sum : send;
    if (step.work == Work::none) return kNone;
    if (step.receives) return step.work == Work::add ? take_sum : take;
    return step.work == Work::add ? add : copy;
  }
  // That the work of a step moves, beside its data.
  double more_bytes(const SceneStep& step) const { return is_direct(step) ? message_bytes : 0; }
};

struct Scene {
  std::vector<SceneBlock> blocks;
  std::vector<SceneStep> steps;
  std::vector<Wait> waits;
  std::vector<double> tile_bytes;
  std::vector<Source> sources;
  std::vector<Use> uses;
  std::vector<double> capacities;
  uint32_t num_awaited = 0;
  uint32_t slots = 0;
  bool is_fixed = true;  // no source ever has to share

  // Gives every block the tiles of its job: bytes of a chunk.
  void set_tiles(std::span<const std::span<const double>> of_jobs);

  uint64_t num_events() const {
    uint64_t sum = 0;
    for (const SceneBlock& block : blocks) sum += uint64_t{block.num_steps} * block.num_tiles;
    return sum;
  }
};

// The scene of jobs, whose tiles are still to be set.
Scene make_scene(std::span<const Job> jobs, const Setting& setting, const Wiring& wiring, const Folding& folding);

// What a replay of a scene gives; both ways to get it agree.
struct Replay {
  bool ended = false;
  std::vector<double> ends;  // of every block
  std::vector<Record> records;
};
Replay replay_dataflow(const Scene& scene, bool record);
Replay replay_events(const Scene& scene, bool record);

std::vector<PathPiece> critical_path(const Scene& scene, const Replay& replay);

}  // namespace hemiola::simulator
