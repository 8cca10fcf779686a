// One run of one rank's part of a plan: its threadblocks as state machines, stepped by one or more workers.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "enforce.h"
#include "runtime/cache_size.h"
#include "runtime/call.h"
#include "runtime/clock.h"
#include "runtime/endpoint.h"
#include "runtime/geometry.h"
#include "runtime/part.h"
#include "runtime/progress.h"
#include "runtime/step_bytes.h"
#include "runtime/waiting.h"
#include "step_law.h"

namespace hemiola::runtime {

constexpr uint64_t kLeastHandedOver = 64 << 10;  // bytes of a message that are worth a change of ranks on a core

inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

enum class Outcome { moved, blocked, failed };

class Run {
 public:
  Run(Endpoint& endpoint, const WaitPolicy& policy, const std::function<bool()>& interrupted, const Part& part,
      const CallShape& call, uint64_t signature, const Geometry& geometry, uint32_t workers, size_t message_span,
      RunNotes& notes, std::vector<TraceEvent>* trace, const Attention* attention)
      : endpoint_(endpoint),
        policy_(policy),
        attention_(attention),
        interrupted_(interrupted),
        part_(part),
        call_(call),
        signature_(signature),
        workers_(workers),
        trace_(trace),
        num_tiles_(geometry.num_tiles()),
        progress_(notes.progress),
        passes_(notes.passes),
        bytes_(part, call, geometry) {
    notes.clear(part.blocks.size(), workers);
    // Payload buffers come round again where every rank that reads one sends next. Otherwise the last reader leaves
    // copies of their lines in its caches.
    if (part.every_receiver_sends && endpoint.num_local_ranks() == endpoint.num_ranks()) travel_ = Travel::everywhere;
    bytes_.streams_results = bytes_.num_bytes() * endpoint.num_local_ranks() > shared_cache_bytes();
    for (size_t k = 0; k < part.blocks.size(); ++k) {
      const PartBlock& block = part.blocks[k];
      Progress& progress = progress_[k];
      if (block.num_steps > 0 && num_tiles_ > 0) num_unfinished_.fetch_add(1);
      progress.steps = part.steps.data() + block.first_step;
      progress.num_steps = block.num_steps;
      if (block.send_connection >= 0) {
        const Connection connection = part.sends[static_cast<size_t>(block.send_connection)];
        progress.send = &endpoint.send_end(connection);
        progress.send_peer = connection.peer;
        progress.shares_memory = endpoint.is_local(connection.peer);
        if (progress.shares_memory) progress.send->set_span(message_span);
        progress.send_bell = endpoint.bell(connection.peer);
      }
      if (block.receive_connection >= 0) {
        const Connection connection = part.receives[static_cast<size_t>(block.receive_connection)];
        progress.receive = &endpoint.receive_end(connection);
        progress.receive_peer = connection.peer;
        progress.receive_bell = endpoint.bell(connection.peer);
        progress.can_forward = progress.shares_memory && endpoint.is_local(connection.peer);
      }
    }
  }

  StepBytes& bytes() { return bytes_; }

  // Steps the threadblocks of one worker until all have finished or the run has failed. The first worker also
  // moves the links and checks the peers, for all of them, and so stays to the end.
  void work(uint32_t worker) {
    Waiting waiting(policy_, attention_);
    try {
      while (!failed_.load(std::memory_order_relaxed)) {
        bool moved = worker == 0 && endpoint_.has_links() && pump();
        const bool done = pass_over_blocks(worker, moved);
        if (done && (worker != 0 || (num_unfinished_.load() == 0 && endpoint_.links_are_drained()))) break;
        if (moved)
          end_waiting(waiting);
        else
          wait(worker, waiting);
      }
    } catch (const std::exception& error) {  // no memory can be mapped, or an invariant of ours is broken
      endpoint_.post_failure({FailureKind::internal, static_cast<int32_t>(endpoint_.rank()), error.what()});
      failed_.store(true);
    }
    end_waiting(waiting);
    passes_[worker].store(kWorkerIsDone);
  }

  bool failed() const { return failed_.load(); }

 private:
  // Takes every step of a worker's threadblocks that can be taken now; whether all of them have finished.
  bool pass_over_blocks(uint32_t worker, bool& moved) {
    bool done = true;
    for (size_t k = worker; k < progress_.size(); k += workers_) {
      Progress& block = progress_[k];
      if (block.is_done(num_tiles_)) continue;
      Outcome outcome = Outcome::moved;
      while (!block.is_done(num_tiles_) && (outcome = advance(block)) == Outcome::moved) moved = true;
      if (outcome == Outcome::failed) return false;
      if (block.is_done(num_tiles_))
        finish_block();
      else
        done = false;
    }
    passes_[worker].store(passes_[worker].load(std::memory_order_relaxed) + 1);
    return done;
  }

  void end_waiting(Waiting& waiting) {
    if (waiting.is_announced()) endpoint_.end_sleep();
    waiting.restart();
  }

  void wait(uint32_t worker, Waiting& waiting) {
    const WaitStep step = waiting.next();
    if (step == WaitStep::pause) {
      pause_briefly();
      return;
    }
    if (endpoint_.has_failed()) {
      failed_.store(true);
      return;
    }
    switch (step) {
      case WaitStep::check:
        if (worker == 0) check_peers(waiting);
        break;
      case WaitStep::yield:
        waiting.yield();
        break;
      case WaitStep::announce:
        waiting.announce(endpoint_.announce_sleep());
        break;
      default:
        endpoint_.sleep(waiting.bell(), kCheckInterval, links_to_watch(worker, waiting));
        endpoint_.end_sleep();
        waiting.end_sleep();
    }
  }

  // The first worker wakes for its links: for every packet if somebody waits for it, otherwise rarely.
  static LinkWatch links_to_watch(uint32_t worker, const Waiting& waiting) {
    if (worker != 0) return LinkWatch::never;
    return waiting.is_attended() ? LinkWatch::every_packet : LinkWatch::rarely;
  }

  bool pump() {
    const bool moved = endpoint_.pump();
    if (moved && workers_ > 1) endpoint_.bell(endpoint_.rank()).ring();
    return moved;
  }

  uint64_t num_finished_steps() const {
    uint64_t sum = 0;
    for (const Progress& block : progress_) sum += block.finished.load(std::memory_order_relaxed);
    return sum;
  }

  void finish_block() {
    if (num_unfinished_.fetch_sub(1) == 1 && workers_ > 1) endpoint_.bell(endpoint_.rank()).ring();
  }

  // Takes the next step of a threadblock if nothing stands in its way.
  Outcome advance(Progress& block) {
    const PartStep& step = block.steps[block.step];
    const OpcodeTraits& acts = traits(step.opcode);
    if (waits_for_own(step, block.tile)) return Outcome::blocked;
    const bool uses_messages = acts.receives || acts.sends;
    const uint64_t num_bytes = uses_messages ? bytes_.message_bytes(step, block.tile) : 0;
    // With lengths, a chunk that ended in an earlier tile has no message; the other end sees the same.
    if (uses_messages && num_bytes == 0 && block.tile > 0) {
      finish_step(block);
      return Outcome::moved;
    }
    std::byte *in = nullptr, *out = nullptr;
    if (acts.receives) {
      const SlotHeader* message = block.receive->peek();
      if (message == nullptr) return Outcome::blocked;
      if (message->signature != signature_ || message->num_bytes != num_bytes) [[unlikely]]
        return refuse(block, *message, num_bytes);
      in = block.receive->payload(message);
    }
    if (acts.sends) {
      out = block.send->acquire(num_bytes, bytes_.own_data(step, block.tile));
      if (out == nullptr) return Outcome::blocked;
    }
    const int64_t begin = trace_ != nullptr ? now() : 0;
    const uint32_t num_steps = carry_out(block, step, in, out, num_bytes);
    const int64_t end = trace_ != nullptr ? now() : 0;
    const bool has_sent = acts.sends || num_steps > 1;
    for (uint32_t k = 0; k < num_steps; ++k) {
      if (trace_ != nullptr) note(block, begin, end, num_bytes);
      finish_step(block);
    }
    if (has_sent && block.shares_memory && num_bytes >= kLeastHandedOver && attention_ == nullptr &&
        block.send->holds_up_reader())
      sched_yield();
    return Outcome::moved;
  }

  void finish_step(Progress& block) {
    if (++block.step == block.num_steps) {
      block.step = 0;
      ++block.tile;
    }
    block.finished.store(block.finished.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
    if (workers_ > 1) endpoint_.bell(endpoint_.rank()).ring();
  }

  // Takes a step that nothing stands in the way of, and the next one with it where both can be done in one sweep; how
  // many were taken.
  uint32_t carry_out(Progress& block, const PartStep& step, std::byte* in, std::byte* out, uint64_t num_bytes) {
    if (in != nullptr && block.can_forward && block.send->can_take_over(*block.receive->peek(), travel_)) {
      if (out != nullptr) {
        forward_in_place(block, step, in);
        return 1;
      }
      if (step.opcode == Opcode::r && exchange_with_next(block, step, in, num_bytes)) return 2;
      bytes_.act(step, block.tile, in, nullptr, false);
      release(block, block.send->reuse_buffer(*block.receive->peek(), in));
      return 1;
    }
    bytes_.act(step, block.tile, in, out, out != nullptr && block.send->streams(num_bytes));
    if (out != nullptr) {
      block.send->publish(signature_, static_cast<uint32_t>(num_bytes));
      block.send_bell.ring();
    }
    if (in != nullptr) {
      block.receive->release();
      block.receive_bell.ring();
    }
    return 1;
  }

  // A step that receives and sends, where the message lies.
  void forward_in_place(Progress& block, const PartStep& step, std::byte* message) {
    bytes_.act(step, block.tile, message, message, false);
    hand_over(block);
  }

  // A step that copies a message into memory and the next one, which sends: the buffer is read and filled in one sweep.
  // Neither is taken where something stands in the way of the second.
  bool exchange_with_next(Progress& block, const PartStep& step, std::byte* message, uint64_t num_bytes) {
    const bool wraps = block.step + 1 == block.num_steps;
    const uint64_t tile = block.tile + wraps;
    const PartStep& next = block.steps[wraps ? 0 : block.step + 1];
    if (tile == num_tiles_ || next.opcode != Opcode::s || waits_for_own(next, tile)) return false;
    if (!bytes_.can_exchange(step, block.tile, next, tile) || block.send->acquire(num_bytes) == nullptr) return false;
    bytes_.exchange(step, block.tile, next, tile, message);
    hand_over(block);
    return true;
  }

  // Publishes what lies in the buffer of the message that came in.
  void hand_over(Progress& block) {
    const uint64_t buffer = forward_message(*block.receive, *block.send, signature_);
    block.send_bell.ring();
    release(block, buffer);
  }

  void release(Progress& block, uint64_t buffer) {
    block.receive->release(buffer);
    block.receive_bell.ring();
  }

  // Whether another threadblock of this rank has to do something first.
  bool waits_for_own(const PartStep& step, uint64_t tile) const {
    for (uint32_t k = 0; k < step.num_dependencies; ++k) {
      const Dependency& dependency = part_.dependencies[step.first_dependency + k];
      const Progress& other = progress_[dependency.threadblock];
      const uint64_t num_ended = other.finished.load(std::memory_order_acquire);
      if (!has_ended({tile, dependency.step}, other.num_steps, num_ended)) return true;
    }
    return false;
  }

  void note(const Progress& block, int64_t begin, int64_t end, uint64_t num_bytes) {
    const auto number = static_cast<uint32_t>(&block - progress_.data());
    const TraceEvent event{number, block.step, static_cast<uint32_t>(block.tile), 0, begin, end, num_bytes};
    const std::lock_guard lock(trace_mutex_);
    trace_->push_back(event);
  }

  Outcome refuse(const Progress& block, const SlotHeader& message, uint64_t expected) {
    std::ostringstream text;
    text << "rank " << block.receive_peer << " sent a message that does not belong to call " << endpoint_.call()
         << " of rank " << endpoint_.rank() << " (" << *call_.description << ")";
    if (message.signature == signature_)
      text << ": it has " << message.num_bytes << " bytes where " << expected << " were expected";
    else if (const Board* board = endpoint_.board(block.receive_peer))
      text << ": its own call is " << board->description.read();
    endpoint_.post_failure({FailureKind::mismatch, static_cast<int32_t>(block.receive_peer), text.str()});
    failed_.store(true);
    return Outcome::failed;
  }

  // The peers of the steps that wait for nothing on this rank.
  std::vector<uint32_t> awaited() const {
    std::vector<uint32_t> peers;
    for (const Progress& block : progress_) {
      const uint64_t finished = block.finished.load(std::memory_order_acquire);
      if (finished == block.num_steps * num_tiles_) continue;  // also one without steps
      const PartStep& step = block.steps[finished % block.num_steps];
      if (waits_for_own(step, finished / block.num_steps)) continue;
      // The ends of a connection belong to the worker of the threadblock; another one cannot look as closely.
      const bool exactly = workers_ == 1;
      if (traits(step.opcode).receives && !(exactly && block.receive->peek() != nullptr))
        peers.push_back(block.receive_peer);
      if (traits(step.opcode).sends && !(exactly && block.send->acquire() != nullptr)) peers.push_back(block.send_peer);
    }
    for (const uint32_t peer : endpoint_.undrained_peers()) peers.push_back(peer);
    std::sort(peers.begin(), peers.end());
    peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
    return peers;
  }

  void check_peers(Waiting& waiting) {
    // What other workers do is progress, too.
    const uint64_t steps_before = std::exchange(steps_seen_, num_finished_steps());
    if (steps_seen_ != steps_before) waiting.note_progress_elsewhere();
    const std::vector<uint32_t> peers = awaited();
    const PeerCheck check = endpoint_.check_peers(peers);
    if (check.certain) {
      fail(check.certain);
    } else if (check.maybe && is_confirmed(check.maybe)) {
      fail(check.maybe);
    } else if (attention_ == nullptr && interrupted_ && interrupted_()) {
      fail({FailureKind::interrupted, static_cast<int32_t>(endpoint_.rank()), "it was interrupted"});
    } else if (waiting.duration() > policy_.timeout_nanoseconds) {
      if (check.maybe)
        fail(check.maybe);
      else
        time_out(peers, waiting.duration());
    }
  }

  void fail(const Failure& failure) {
    endpoint_.fail(failure);
    failed_.store(true);
  }

  // Whether the same was seen before, and every worker has looked at all its connections since without any progress.
  bool is_confirmed(const Failure& failure) {
    std::vector<uint64_t> passes;
    passes.reserve(passes_.size());
    for (const std::atomic<uint64_t>& count : passes_) passes.push_back(count.load());
    const uint64_t steps = num_finished_steps();
    bool looked = suspicion_.rank == failure.rank && suspicion_.kind == failure.kind && suspicion_.steps == steps;
    for (size_t worker = 0; looked && worker < passes.size(); ++worker)
      looked = passes[worker] == kWorkerIsDone || passes[worker] >= suspicion_.passes[worker] + 2;
    if (!looked && (suspicion_.steps != steps || suspicion_.rank != failure.rank || suspicion_.kind != failure.kind))
      suspicion_ = {failure.kind, failure.rank, steps, std::move(passes)};
    return looked;
  }

  void time_out(const std::vector<uint32_t>& peers, int64_t waited) {
    auto [late, why] = endpoint_.suspect(peers);
    if (late < 0) {
      if (waited < policy_.timeout_nanoseconds / 4 * 5) return;  // somebody else may know more
      late = endpoint_.most_silent(peers);
      why = "nothing came from it";
    }
    std::ostringstream text;
    text << "rank " << late << " did not answer within " << static_cast<double>(policy_.timeout_nanoseconds) * 1e-9
         << " s in call " << endpoint_.call() << " (" << *call_.description << "): " << why << "; " << where();
    fail({FailureKind::peer_lost, late, text.str()});
  }

  // Where this rank stands, for a message: the first threadblock that has not finished.
  std::string where() const {
    for (const Progress& block : progress_) {
      const uint64_t finished = block.finished.load(std::memory_order_acquire);
      if (finished == block.num_steps * num_tiles_) continue;
      const PartStep& step = block.steps[finished % block.num_steps];
      std::ostringstream text;
      text << "rank " << endpoint_.rank() << " waits in threadblock " << &block - progress_.data() << " at step "
           << finished % block.num_steps << " (" << traits(step.opcode).name;
      if (traits(step.opcode).receives) text << " from rank " << block.receive_peer;
      if (traits(step.opcode).sends) text << " to rank " << block.send_peer;
      text << ") of tile " << finished / block.num_steps << " of " << num_tiles_;
      return text.str();
    }
    return "rank " + std::to_string(endpoint_.rank()) + " waits for its links";
  }

  Endpoint& endpoint_;
  const WaitPolicy& policy_;
  const Attention* attention_;  // of a queued call, who waits for it; null in the thread that made the call
  const std::function<bool()>& interrupted_;
  const Part& part_;
  const CallShape& call_;
  const uint64_t signature_;
  const uint32_t workers_;
  std::vector<TraceEvent>* trace_;
  std::mutex trace_mutex_;
  const uint64_t num_tiles_;
  Travel travel_ = Travel::near;
  std::atomic<bool> failed_{false};
  std::vector<Progress>& progress_;
  std::atomic<size_t> num_unfinished_{0};
  uint64_t steps_seen_ = 0;

  // A peer that seems to be missing, and how far this rank was when that was first seen.
  static constexpr uint64_t kWorkerIsDone = ~uint64_t{0};
  struct Suspicion {
    FailureKind kind = FailureKind::none;
    int32_t rank = -1;
    uint64_t steps = 0;
    std::vector<uint64_t> passes;
  };
  Suspicion suspicion_;
  std::vector<std::atomic<uint64_t>>& passes_;
  StepBytes bytes_;
};

}  // namespace hemiola::runtime
