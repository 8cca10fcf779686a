// The replay by events, for all scenes: time goes from one end of an act or transfer to the next, and rates
// are made anew once all that happens at one time has happened.
#include <algorithm>

#include "enforce.h"
#include "simulator/event_queue.h"
#include "simulator/scene.h"
#include "simulator/sharing.h"
#include "step_law.h"

namespace hemiola::simulator {

namespace {

// Events so close to each other differ only by rounding and happen together.
constexpr double kTogether = 1 + 1e-14;

enum class Phase : uint8_t { waiting, asleep, overhead, working };

struct Progress {
  double end = 0, begin = 0, work_begin = 0;
  uint32_t tile = 0, step = 0;
  Phase phase = Phase::waiting;
  bool queued = false;
  Cause cause = Cause::previous;
  Wait awaited{kNone, kNone};
};

// Of the messages that a block sends.
struct Outgoing {
  uint64_t num_acted = 0, num_sent = 0, num_received = 0;
  double last_sent = 0;
};

struct Message {
  double num_bytes, depart, arrived;
  uint64_t record;
};

class Events {
 public:
  Events(const Scene& scene, bool record)
      : scene_(scene),
        queue_(scene.blocks.size() + scene.sources.size()),
        sharing_(scene, queue_, static_cast<uint32_t>(scene.blocks.size())),
        progress_(scene.blocks.size()),
        outgoing_(scene.blocks.size()),
        messages_(scene.blocks.size() * scene.slots),
        waiters_(scene.blocks.size()),
        owner_(scene.sources.size()) {
    uint64_t first = 0;
    for (uint32_t number = 0; number < scene.blocks.size(); ++number) {
      const SceneBlock& block = scene.blocks[number];
      first_record_.push_back(first);
      first += uint64_t{block.num_steps} * block.num_tiles;
      for (const uint32_t source : {block.send, block.send_sum, block.take, block.take_sum, block.add, block.copy})
        if (source != kNone) owner_[source] = number;
      progress_[number].end = block.launch_seconds;
    }
    if (record) records_.resize(first);
  }

  Replay run() {
    for (uint32_t block = 0; block < scene_.blocks.size(); ++block) launch(block);
    settle();
    while (!queue_.empty()) {
      now_ = queue_.next_time();
      const double together = now_ * kTogether;
      do {
        const uint32_t id = queue_.next_id();
        queue_.pop();
        happen(id);
      } while (!queue_.empty() && queue_.next_time() <= together);
      settle();
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
  void launch(uint32_t block) {
    if (!(scene_.blocks[block].launch_seconds > 0)) return wake(block);
    progress_[block].phase = Phase::asleep;
    queue_.set(block, scene_.blocks[block].launch_seconds);
  }

  void settle() {
    for (size_t at = 0; at < ready_.size(); ++at) {
      advance(ready_[at]);
      progress_[ready_[at]].queued = false;
    }
    ready_.clear();
    sharing_.settle(now_);
  }

  void happen(uint32_t id) {
    if (id >= scene_.blocks.size()) {
      const auto source = static_cast<uint32_t>(id - scene_.blocks.size());
      const uint32_t block = owner_[source];
      sharing_.stop(source);
      if (scene_.blocks[block].send == source && !scene_.blocks[block].direct)
        end_transfer(block);
      else
        end_act(block);
      return;
    }
    switch (progress_[id].phase) {
      case Phase::asleep:
        progress_[id].phase = Phase::waiting;
        wake(id);
        break;
      case Phase::overhead:
        begin_work(id);
        break;
      case Phase::working:
        end_act(id);
        break;
      case Phase::waiting:
        ENFORCE(false);
    }
  }

  void wake(uint32_t block) {
    if (progress_[block].queued || progress_[block].phase != Phase::waiting) return;
    progress_[block].queued = true;
    ready_.push_back(block);
  }

  void advance(uint32_t number) {
    while (progress_[number].phase == Phase::waiting && progress_[number].tile < scene_.blocks[number].num_tiles &&
           is_ready(number))
      begin_act(number);
  }

  bool is_ready(uint32_t number) {
    const SceneBlock& block = scene_.blocks[number];
    Progress& own = progress_[number];
    const SceneStep& step = scene_.steps[block.first_step + own.step];
    for (uint32_t k = 0; k < step.num_waits; ++k) {
      const Wait& wait = scene_.waits[step.first_wait + k];
      const Progress& other = progress_[wait.block];
      if (!has_ended({own.tile, wait.step}, {other.tile, other.step})) {
        waiters_[wait.block].push_back(number);
        own.cause = Cause::dependency;
        own.awaited = wait;
        return false;
      }
    }
    if (step.receives) {
      if (block.sender == kNone) return false;
      const Outgoing& incoming = outgoing_[block.sender];
      if (!has_message(incoming.num_sent, incoming.num_received)) {
        own.cause = Cause::message;
        return false;
      }
      const double arrived = message(block.sender, incoming.num_received).arrived;
      if (arrived > now_ * kTogether) {
        own.cause = Cause::message;
        own.phase = Phase::asleep;
        queue_.set(number, arrived);
        return false;
      }
    }
    const Outgoing& outgoing = outgoing_[number];
    if (step.sends && (block.receiver == kNone || !has_slot(outgoing.num_acted, outgoing.num_received, scene_.slots))) {
      own.cause = Cause::slot;
      return false;
    }
    return true;
  }

  void begin_act(uint32_t number) {
    const SceneBlock& block = scene_.blocks[number];
    Progress& own = progress_[number];
    own.begin = now_;
    const double overhead = block.overhead(scene_.steps[block.first_step + own.step]);
    if (overhead > 0) {
      own.phase = Phase::overhead;
      queue_.set(number, now_ + overhead);
    } else {
      begin_work(number);
    }
  }

  uint32_t work_source(uint32_t number) const {
    const SceneBlock& block = scene_.blocks[number];
    return block.work_source(scene_.steps[block.first_step + progress_[number].step]);
  }

  // What the work of a step moves.
  double work_bytes(uint32_t number) const {
    const SceneBlock& block = scene_.blocks[number];
    return num_bytes(number) + block.more_bytes(scene_.steps[block.first_step + progress_[number].step]);
  }

  double num_bytes(uint32_t number) const {
    const SceneBlock& block = scene_.blocks[number];
    const Progress& own = progress_[number];
    return scene_.steps[block.first_step + own.step].count * scene_.tile_bytes[block.first_tile + own.tile];
  }

  void begin_work(uint32_t number) {
    const uint32_t source = work_source(number);
    const double bytes = work_bytes(number);
    progress_[number].phase = Phase::working;
    progress_[number].work_begin = now_;
    if (source == kNone || bytes == 0) {
      end_act(number);
    } else if (scene_.sources[source].is_fixed()) {
      const double end = now_ + bytes / scene_.sources[source].cap;
      if (end == now_)
        end_act(number);
      else
        queue_.set(number, end);
    } else {
      sharing_.start(source, bytes, now_);
    }
  }

  void end_act(uint32_t number) {
    const SceneBlock& block = scene_.blocks[number];
    Progress& own = progress_[number];
    const SceneStep& step = scene_.steps[block.first_step + own.step];
    const uint64_t record = first_record_[number] + uint64_t{own.tile} * block.num_steps + own.step;
    own.end = now_;
    if (!records_.empty()) {
      const uint32_t source = work_source(number);
      const int32_t limit = source == kNone                     ? kNoResource
                            : scene_.sources[source].is_fixed() ? scene_.sources[source].limit
                                                                : sharing_.limit(source);
      records_[record] = {block.original,
                          own.step,
                          own.tile,
                          own.cause,
                          own.awaited.block,
                          own.awaited.step,
                          limit,
                          kNoResource,
                          own.begin,
                          now_,
                          now_,
                          now_,
                          now_};
    }
    if (block.is_direct(step)) {
      const uint32_t source = work_source(number);
      message(number, outgoing_[number].num_acted++) = {num_bytes(number), own.work_begin, 0, record};
      arrive(number, now_, scene_.sources[source].is_fixed() ? scene_.sources[source].limit : sharing_.limit(source));
    } else if (step.sends) {
      message(number, outgoing_[number].num_acted++) = {num_bytes(number) + block.message_bytes, 0, 0, record};
      if (outgoing_[number].num_acted == outgoing_[number].num_sent + 1 || scene_.sources[block.send].is_fixed())
        begin_transfer(number);
    }
    if (step.receives) {
      ++outgoing_[block.sender].num_received;
      wake(block.sender);
    }
    own.phase = Phase::waiting;
    own.cause = Cause::previous;
    if (++own.step == block.num_steps) {
      own.step = 0;
      ++own.tile;
    }
    if (step.awaited != kNone) {
      for (const uint32_t waiter : waiters_[number]) wake(waiter);
      waiters_[number].clear();
    }
    wake(number);
  }

  Message& message(uint32_t block, uint64_t number) {
    return messages_[uint64_t{block} * scene_.slots + number % scene_.slots];
  }

  void begin_transfer(uint32_t number) {
    const SceneBlock& block = scene_.blocks[number];
    Outgoing& own = outgoing_[number];
    const Source& source = scene_.sources[block.send];
    Message& next = message(number, own.num_sent);
    if (source.is_fixed()) {
      next.depart = std::max(now_, own.last_sent);
      own.last_sent = next.depart + next.num_bytes / source.cap;
      arrive(number, own.last_sent, source.limit);
      return;
    }
    next.depart = now_;
    if (next.num_bytes > 0)
      sharing_.start(block.send, next.num_bytes, now_);
    else
      end_transfer(number);
  }

  void end_transfer(uint32_t number) {
    Outgoing& own = outgoing_[number];
    arrive(number, now_, sharing_.limit(scene_.blocks[number].send));
    if (own.num_acted > own.num_sent) begin_transfer(number);
  }

  void arrive(uint32_t number, double sent, int32_t limit) {
    const SceneBlock& block = scene_.blocks[number];
    Message& arriving = message(number, outgoing_[number].num_sent++);
    arriving.arrived = sent + block.latency;
    if (!records_.empty()) {
      Record& record = records_[arriving.record];
      record.send_limit = limit;
      record.depart = arriving.depart;
      record.sent = sent;
      record.arrived = arriving.arrived;
    }
    wake(block.receiver);
  }

  const Scene& scene_;
  EventQueue queue_;
  Sharing sharing_;
  double now_ = 0;
  std::vector<Progress> progress_;
  std::vector<Outgoing> outgoing_;
  std::vector<Message> messages_;
  std::vector<std::vector<uint32_t>> waiters_;
  std::vector<uint32_t> owner_, ready_;
  std::vector<uint64_t> first_record_;
  std::vector<Record> records_;
};

}  // namespace

Replay replay_events(const Scene& scene, bool record) { return Events(scene, record).run(); }

}  // namespace hemiola::simulator
