// Where no source shares anything, every step's time follows from those before it: no clock is needed, and
// threadblocks run as far as they can, one after another. No tile needs a later one, so that running some tiles
// of all threadblocks before the next ones keeps what has to be remembered small.
#include <algorithm>
#include <limits>

#include "simulator/scene.h"
#include "step_law.h"

namespace hemiola::simulator {

namespace {

constexpr uint32_t kMostTilesTogether = 64;
constexpr uint64_t kMostRememberedEnds = 4 << 20;

struct Progress {
  double end = 0;                           // of the last step
  double last_sent = 0;                     // end of the last transfer
  uint64_t num_sent = 0, num_received = 0;  // of the messages that this block sends
  uint32_t tile = 0, step = 0;
  bool queued = false;
};

class Dataflow {
 public:
  Dataflow(const Scene& scene, bool record) : scene_(scene), progress_(scene.blocks.size()) {
    arrivals_.resize(scene.blocks.size() * scene.slots);
    releases_.resize(scene.blocks.size() * scene.slots);
    waiters_.resize(scene.blocks.size());
    window_ = static_cast<uint32_t>(
        std::clamp<uint64_t>(kMostRememberedEnds / std::max<uint64_t>(scene.num_awaited, 1), 1, kMostTilesTogether));
    ends_.resize(uint64_t{scene.num_awaited} * window_);
    if (record) records_.resize(scene.num_events());
    uint64_t first = 0;
    for (uint32_t number = 0; number < scene.blocks.size(); ++number) {
      const SceneBlock& block = scene.blocks[number];
      progress_[number].end = block.launch_seconds;
      first_record_.push_back(first);
      first += uint64_t{block.num_steps} * block.num_tiles;
    }
  }

  Replay run() {
    uint32_t num_tiles = 0;
    for (const SceneBlock& block : scene_.blocks) num_tiles = std::max(num_tiles, block.num_tiles);
    for (limit_ = window_;; limit_ += window_) {
      for (uint32_t block = 0; block < scene_.blocks.size(); ++block) wake(block);
      while (!queue_.empty()) {
        const uint32_t block = queue_.back();
        queue_.pop_back();
        progress_[block].queued = false;
        advance(block);
      }
      if (limit_ >= num_tiles) break;
    }
    Replay replay;
    replay.ended = true;
    for (uint32_t block = 0; block < scene_.blocks.size(); ++block) {
      replay.ended &= progress_[block].tile == scene_.blocks[block].num_tiles;
      replay.ends.push_back(progress_[block].end);
    }
    replay.records = std::move(records_);
    return replay;
  }

 private:
  void wake(uint32_t block) {
    if (progress_[block].queued) return;
    progress_[block].queued = true;
    queue_.push_back(block);
  }

  void advance(uint32_t number) {
    const SceneBlock& block = scene_.blocks[number];
    Progress& own = progress_[number];
    const uint32_t limit = std::min(limit_, block.num_tiles);
    const uint32_t slots = scene_.slots;
    while (own.tile < limit) {
      const SceneStep& step = scene_.steps[block.first_step + own.step];
      double begin = own.end;
      Cause cause = Cause::previous;
      Wait awaited{kNone, kNone};
      for (uint32_t k = 0; k < step.num_waits; ++k) {
        const Wait& wait = scene_.waits[step.first_wait + k];
        const Progress& other = progress_[wait.block];
        if (!has_ended({own.tile, wait.step}, {other.tile, other.step})) {
          waiters_[wait.block].push_back(number);
          return;
        }
        const uint32_t row = scene_.steps[scene_.blocks[wait.block].first_step + wait.step].awaited;
        if (const double end = ends_[uint64_t{row} * window_ + own.tile % window_]; end > begin) {
          begin = end;
          cause = Cause::dependency;
          awaited = wait;
        }
      }
      Progress* sender = nullptr;
      if (step.receives) {
        if (block.sender == kNone) return;
        sender = &progress_[block.sender];
        if (!has_message(sender->num_sent, sender->num_received)) return;
        const double arrival = arrivals_[uint64_t{block.sender} * slots + sender->num_received % slots];
        if (arrival > begin) {
          begin = arrival;
          cause = Cause::message;
        }
      }
      if (step.sends) {
        if (block.receiver == kNone || !has_slot(own.num_sent, own.num_received, slots)) return;
        const double release = releases_[uint64_t{number} * slots + own.num_sent % slots];
        if (release > begin) {
          begin = release;
          cause = Cause::slot;
        }
      }
      const double num_bytes = step.count * scene_.tile_bytes[block.first_tile + own.tile];
      const bool direct = block.is_direct(step);
      double end = begin + block.overhead(step);
      double depart = end;
      const uint32_t work = block.work_source(step);
      if (work != kNone) end += (num_bytes + block.more_bytes(step)) / scene_.sources[work].cap;
      double sent = end, arrived = end;
      if (step.sends) {
        if (!direct) {
          depart = std::max(end, own.last_sent);
          sent = own.last_sent = depart + (num_bytes + block.message_bytes) / scene_.sources[block.send].cap;
        }
        arrived = sent + block.latency;
        arrivals_[uint64_t{number} * slots + own.num_sent++ % slots] = arrived;
        wake(block.receiver);
      }
      if (step.receives) {
        releases_[uint64_t{block.sender} * slots + sender->num_received++ % slots] = end;
        wake(block.sender);
      }
      if (!records_.empty())
        records_[first_record_[number] + uint64_t{own.tile} * block.num_steps + own.step] = {
            block.original,
            own.step,
            own.tile,
            cause,
            awaited.block,
            awaited.step,
            work == kNone ? kNoResource : scene_.sources[work].limit,
            step.sends ? scene_.sources[direct ? work : block.send].limit : kNoResource,
            begin,
            end,
            step.sends ? depart : end,
            sent,
            arrived};
      own.end = end;
      if (step.awaited != kNone) ends_[uint64_t{step.awaited} * window_ + own.tile % window_] = end;
      if (++own.step == block.num_steps) {
        own.step = 0;
        ++own.tile;
      }
      if (step.awaited != kNone) {
        for (const uint32_t waiter : waiters_[number]) wake(waiter);
        waiters_[number].clear();
      }
    }
  }

  const Scene& scene_;
  uint32_t window_ = 1, limit_ = 0;
  std::vector<Progress> progress_;
  std::vector<double> arrivals_, releases_, ends_;
  std::vector<std::vector<uint32_t>> waiters_;
  std::vector<uint32_t> queue_;
  std::vector<uint64_t> first_record_;
  std::vector<Record> records_;
};

}  // namespace

Replay replay_dataflow(const Scene& scene, bool record) { return Dataflow(scene, record).run(); }

}  // namespace hemiola::simulator
