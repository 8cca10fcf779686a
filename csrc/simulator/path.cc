// The critical path: from the last end backwards, always to what was waited for last.
#include <algorithm>

#include "enforce.h"
#include "simulator/scene.h"

namespace hemiola::simulator {

namespace {

class Walk {
 public:
  Walk(const Scene& scene, const Replay& replay) : scene_(scene), replay_(replay) {
    uint64_t first = 0;
    for (const SceneBlock& block : scene.blocks) {
      first_record_.push_back(first);
      first += uint64_t{block.num_steps} * block.num_tiles;
      std::vector<uint32_t> sends, receives;
      for (uint32_t k = 0; k < block.num_steps; ++k) {
        if (scene.steps[block.first_step + k].sends) sends.push_back(k);
        if (scene.steps[block.first_step + k].receives) receives.push_back(k);
      }
      sends_.push_back(std::move(sends));
      receives_.push_back(std::move(receives));
    }
  }

  std::vector<PathPiece> go() {
    if (replay_.records.empty()) return {};
    auto block =
        static_cast<uint32_t>(std::max_element(replay_.ends.begin(), replay_.ends.end()) - replay_.ends.begin());
    if (!(replay_.ends[block] > 0)) return {};
    uint32_t step = scene_.blocks[block].num_steps - 1, tile = scene_.blocks[block].num_tiles - 1;
    for (;;) {
      add_act(block, step, tile);
      const Record& record = record_of(block, step, tile);
      switch (record.cause) {
        case Cause::previous:
          if (step == 0 && tile == 0) return std::move(path_);
          step_back(block, step, tile);
          break;
        case Cause::dependency:
          block = record.cause_threadblock;
          step = record.cause_step;
          break;
        case Cause::message: {
          const uint64_t number = ordinal(receives_[block], step, tile);
          block = scene_.blocks[block].sender;
          follow_message(block, number, step, tile);
          break;
        }
        case Cause::slot: {
          const uint64_t number = ordinal(sends_[block], step, tile) - scene_.slots;
          block = scene_.blocks[block].receiver;
          locate(receives_[block], number, step, tile);
          break;
        }
      }
    }
  }

 private:
  const Record& record_of(uint32_t block, uint32_t step, uint32_t tile) const {
    return replay_.records[first_record_[block] + uint64_t{tile} * scene_.blocks[block].num_steps + step];
  }

  static uint64_t ordinal(const std::vector<uint32_t>& steps, uint32_t step, uint32_t tile) {
    const auto found = std::lower_bound(steps.begin(), steps.end(), step);
    return uint64_t{tile} * steps.size() + static_cast<uint64_t>(found - steps.begin());
  }

  static void locate(const std::vector<uint32_t>& steps, uint64_t number, uint32_t& step, uint32_t& tile) {
    tile = static_cast<uint32_t>(number / steps.size());
    step = steps[number % steps.size()];
  }

  void step_back(uint32_t block, uint32_t& step, uint32_t& tile) const {
    if (step > 0) {
      --step;
      return;
    }
    step = scene_.blocks[block].num_steps - 1;
    --tile;
  }

  void add(PathPieceKind kind, const Record& record, int32_t resource, double begin, double end) {
    if (end > begin) path_.push_back({kind, record.threadblock, record.step, record.tile, resource, 0, begin, end});
  }

  void add_act(uint32_t block, uint32_t step, uint32_t tile) {
    const Record& record = record_of(block, step, tile);
    const SceneStep& about = scene_.steps[scene_.blocks[block].first_step + step];
    const double overhead = std::min(record.end, record.begin + scene_.blocks[block].overhead(about));
    const PathPieceKind kind = scene_.blocks[block].is_direct(about) ? PathPieceKind::transfer
                               : about.work == Work::add             ? PathPieceKind::adding
                                                                     : PathPieceKind::copying;
    add(kind, record, record.work_limit, overhead, record.end);
    add(PathPieceKind::overhead, record, kNoResource, record.begin, overhead);
  }

  // Back along a connection, over all messages that went out without a gap, to the act that sent the first of them.
  void follow_message(uint32_t sender, uint64_t number, uint32_t& step, uint32_t& tile) {
    locate(sends_[sender], number, step, tile);
    const Record* record = &record_of(sender, step, tile);
    add(PathPieceKind::latency, *record, kNoResource, record->sent, record->arrived);
    if (scene_.blocks[sender].direct) return;
    for (;;) {
      add(PathPieceKind::transfer, *record, record->send_limit, record->depart, record->sent);
      if (record->depart <= record->end || number == 0) return;
      locate(sends_[sender], --number, step, tile);
      record = &record_of(sender, step, tile);
    }
  }

  const Scene& scene_;
  const Replay& replay_;
  std::vector<uint64_t> first_record_;
  std::vector<std::vector<uint32_t>> sends_, receives_;
  std::vector<PathPiece> path_;
};

}  // namespace

std::vector<PathPiece> critical_path(const Scene& scene, const Replay& replay) { return Walk(scene, replay).go(); }

}  // namespace hemiola::simulator
