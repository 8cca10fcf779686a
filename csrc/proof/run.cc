#include <deque>
#include <queue>

#include "enforce.h"
#include "proof/proof.h"
#include "step_law.h"

namespace hemiola {
namespace {

struct Fifo {
  uint32_t sent = 0, received = 0;  // messages
  std::deque<Segment> contents;
};

struct Block {
  uint32_t step;           // row of the next step
  uint32_t moved = 0;      // messages of it that are done
  uint32_t waits_met = 0;  // dependencies of it that are met, from the first on
  bool offered = false;    // without slots: its message waits to be taken
  bool queued = false;
};

class Runner {
 public:
  Runner(const PlacedPlan& plan, const Connections& connections, uint32_t slots, uint32_t packing, State* state)
      : plan_(plan),
        connections_(connections),
        slots_(slots),
        packing_(packing),
        state_(state),
        fifos_(connections.sender.size()),
        waiters_(plan.threadblocks.size()) {
    for (const Threadblock& b : plan.threadblocks) blocks_.push_back({b.first_step});
    result_.order.reserve(plan.steps.size());
  }

  RunResult go() {
    for (uint32_t block = 0; block < blocks_.size(); ++block) wake(block);
    for (size_t at = 0; at < queue_.size(); ++at) {
      const uint32_t block = queue_[at];
      blocks_[block].queued = false;
      advance(block);
      if (at > 4096 && at * 2 > queue_.size()) {
        queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(at) + 1);
        at = static_cast<size_t>(-1);
      }
    }
    result_.ended = result_.order.size() == plan_.steps.size();
    if (!result_.ended) find_cycle();
    return std::move(result_);
  }

 private:
  void wake(uint32_t block) {
    if (block == kNone || blocks_[block].queued) return;
    blocks_[block].queued = true;
    queue_.push_back(block);
  }

  void advance(uint32_t block) {
    const uint32_t end = plan_.end_of_block(block);
    while (blocks_[block].step < end && ready(block)) finish_step(block);
  }

  // Whether the next step can end now; does as much of it as can be done.
  bool ready(uint32_t block) {
    const uint32_t step = blocks_[block].step;
    if (const Dependency* wait = unmet(block)) {
      const uint32_t other = plan_.ranks[plan_.threadblocks[block].rank].first_threadblock + wait->threadblock;
      waiters_[other].emplace(plan_.threadblocks[other].first_step + wait->step, block);
      return false;
    }
    const OpcodeTraits& t = traits(plan_.steps[step].opcode);
    const uint32_t messages = t.receives || t.sends ? num_messages(plan_.steps[step].count, packing_) : 1;
    while (blocks_[block].moved < messages) {
      if (slots_ > 0 && hand_over(block, messages)) continue;
      if (!move(block)) return false;
      ++blocks_[block].moved;
    }
    return true;
  }

  // Many messages between a step that only sends and one that only receives, both under way: they go through
  // one after another without end, so the rest of them is moved at once.
  bool hand_over(uint32_t block, uint32_t messages) {
    Block& receiver = blocks_[block];
    const OpcodeTraits& t = traits(plan_.steps[receiver.step].opcode);
    if (!t.receives || t.sends || messages - receiver.moved < 2) return false;
    const uint32_t connection = connections_.receiving[block];
    Fifo& fifo = fifos_[connection];
    Block& sender = blocks_[connections_.sender[connection]];
    const bool sending = sender.moved > 0 && connections_.matching_send[receiver.step] == sender.step;
    if (!sending || traits(plan_.steps[sender.step].opcode).receives) return false;
    fifo.sent = fifo.received = fifo.received + messages - receiver.moved;
    receiver.moved = sender.moved = messages;
    wake(connections_.sender[connection]);
    return true;
  }

  const Dependency* unmet(uint32_t block) {
    const uint32_t step = blocks_[block].step;
    const uint32_t first = plan_.ranks[plan_.threadblocks[block].rank].first_threadblock;
    const uint32_t begin = plan_.steps[step].first_dependency, end = plan_.end_of_waits(step);
    for (uint32_t& met = blocks_[block].waits_met; begin + met < end; ++met) {
      const Dependency& wait = plan_.dependencies[begin + met];
      const uint32_t other = first + wait.threadblock;
      if (!has_ended({0, plan_.threadblocks[other].first_step + wait.step}, {0, blocks_[other].step})) return &wait;
    }
    return nullptr;
  }

  // One message of the next step: in one go where there are slots, otherwise received and then offered.
  bool move(uint32_t block) {
    const OpcodeTraits& t = traits(plan_.steps[blocks_[block].step].opcode);
    Fifo* in = t.receives ? &fifos_[connections_.receiving[block]] : nullptr;
    Fifo* out = t.sends ? &fifos_[connections_.sending[block]] : nullptr;
    if (slots_ == 0) return move_without_slots(block, in, out);
    if (in != nullptr && !has_message(in->sent, in->received)) return false;
    if (out != nullptr && !has_slot(out->sent, out->received, slots_)) return false;
    if (in != nullptr) receive(block, *in);
    if (out != nullptr) send(block, *out);
    return true;
  }

  bool move_without_slots(uint32_t block, Fifo* in, Fifo* out) {
    Block& b = blocks_[block];
    if (!b.offered) {
      if (in != nullptr && !has_message(in->sent, in->received)) return false;
      if (in != nullptr) receive(block, *in);
      if (out == nullptr) return true;
      send(block, *out);
      b.offered = true;
    }
    if (has_message(out->sent, out->received)) return false;  // until it is received
    b.offered = false;
    return true;
  }

  void receive(uint32_t block, Fifo& fifo) {
    ++fifo.received;
    wake(connections_.sender[connections_.receiving[block]]);
  }

  void send(uint32_t block, Fifo& fifo) {
    ++fifo.sent;
    wake(connections_.receiver[connections_.sending[block]]);
  }

  void finish_step(uint32_t block) {
    Block& b = blocks_[block];
    if (state_ != nullptr) compute(block);
    result_.order.push_back(b.step);
    ++b.step;
    b.moved = 0;
    b.waits_met = 0;
    auto& waiting = waiters_[block];
    while (!waiting.empty() && waiting.top().first < b.step) {
      wake(waiting.top().second);
      waiting.pop();
    }
  }

  // What the step does to memory. Values wait in the queue of their connection from the end of the sending
  // step on, so this needs a run in which every step is one message, and with slots.
  void compute(uint32_t block) {
    const Step& s = plan_.steps[blocks_[block].step];
    if (s.opcode == Opcode::nop) return;
    const OpcodeTraits& t = traits(s.opcode);
    const uint32_t rank = plan_.threadblocks[block].rank;
    const PlacedPlan::Place src = plan_.source(rank, s), dst = plan_.destination(rank, s);
    if (t.reads_source) state_->memory.read(src.buffer, src.index, s.count, moved_);
    if (t.receives) take(fifos_[connections_.receiving[block]], s.count, arrived_);
    if (t.reads_destination) state_->memory.read(dst.buffer, dst.index, s.count, arrived_);
    combine(state_->values, t, moved_, arrived_, sums_);
    if (t.writes_destination) state_->memory.write(dst.buffer, dst.index, moved_, 0);
    if (!t.sends) return;
    auto& leaving = fifos_[connections_.sending[block]].contents;
    leaving.insert(leaving.end(), moved_.begin(), moved_.end());
  }

  static void take(Fifo& fifo, uint32_t count, Segments& taken) {
    taken.clear();
    while (count > 0) {
      taken.push_back(fifo.contents.front());
      fifo.contents.pop_front();
      ENFORCE(taken.back().count <= count, "a message ends within a segment");
      count -= taken.back().count;
    }
  }

  // Every blocked threadblock waits for exactly one other, so following that ends in a cycle.
  void find_cycle() {
    std::vector<uint32_t> seen(blocks_.size(), kNone);
    uint32_t block = 0;
    while (blocks_[block].step == plan_.end_of_block(block)) ++block;
    std::vector<BlockedStep> path;
    while (block != kNone && seen[block] == kNone && blocks_[block].step != plan_.end_of_block(block)) {
      seen[block] = static_cast<uint32_t>(path.size());
      path.push_back(blocked(block));
      block = path.back().awaited_block;
    }
    const bool closed = block != kNone && seen[block] != kNone;
    result_.cycle.assign(path.begin() + (closed ? seen[block] : 0), path.end());
  }

  BlockedStep blocked(uint32_t block) {
    const Block& b = blocks_[block];
    const auto waits = [&](WaitKind kind, uint32_t other) { return BlockedStep{b.step, block, kind, other}; };
    if (const Dependency* wait = unmet(block))
      return waits(WaitKind::dependency,
                   plan_.ranks[plan_.threadblocks[block].rank].first_threadblock + wait->threadblock);
    const OpcodeTraits& t = traits(plan_.steps[b.step].opcode);
    if (t.receives && !b.offered) {
      const uint32_t connection = connections_.receiving[block];
      if (!has_message(fifos_[connection].sent, fifos_[connection].received))
        return waits(WaitKind::message, connections_.sender[connection]);
    }
    return waits(b.offered ? WaitKind::receipt : WaitKind::slot, connections_.receiver[connections_.sending[block]]);
  }

  const PlacedPlan& plan_;
  const Connections& connections_;
  uint32_t slots_;
  uint32_t packing_;
  State* state_;
  std::vector<Fifo> fifos_;
  std::vector<Block> blocks_;
  using Waiter = std::pair<uint32_t, uint32_t>;  // step that must have ended, threadblock that waits
  std::vector<std::priority_queue<Waiter, std::vector<Waiter>, std::greater<>>> waiters_;
  std::vector<uint32_t> queue_;
  Segments moved_, arrived_, sums_;
  RunResult result_;
};

}  // namespace

void combine(Values& values, const OpcodeTraits& t, Segments& moved, Segments& other, Segments& sums) {
  if (t.reduces()) {
    add_ranges(values, other, moved, sums);
    moved.swap(sums);
  } else if (t.receives) {
    moved.swap(other);
  }
}

RunResult run(const PlacedPlan& plan, const Connections& connections, uint32_t slots, uint32_t packing, State* state) {
  return Runner(plan, connections, slots, packing, state).go();
}

}  // namespace hemiola
