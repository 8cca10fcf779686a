// The liveness checks of an endpoint: which peers died, left, call something else, or are late.
#include <poll.h>

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "runtime/clock.h"
#include "runtime/endpoint.h"

namespace hemiola::runtime {

Endpoint::View Endpoint::view(uint32_t peer) const {
  if (const Board* board = this->board(peer)) {
    View seen;
    seen.known = true;
    seen.call = board->call.load(std::memory_order_acquire);
    seen.signature = board->signatures[seen.call & 1].load(std::memory_order_acquire);
    seen.presence = board->presence.load(std::memory_order_relaxed);
    seen.suspect = board->suspect.load(std::memory_order_relaxed);
    seen.age = now() - board->heartbeat.load(std::memory_order_relaxed);
    seen.description = board->description.read();
    if (board->call.load(std::memory_order_acquire) != seen.call) seen.known = false;  // just moving on
    return seen;
  }
  const RemoteStatus* latest = nullptr;
  for (auto link = links_.lower_bound({peer, 0}); link != links_.end() && link->first.first == peer; ++link) {
    const RemoteStatus& status = link->second->status();
    if (status.received != 0 && (latest == nullptr || status.received > latest->received)) latest = &status;
  }
  if (latest == nullptr) return {};
  return {true,
          latest->call,
          latest->signature,
          latest->presence,
          latest->suspect,
          now() - latest->received,
          latest->description};
}

void Endpoint::answer_questions() {
  const Board& board = own_board();
  for (auto& [key, link] : links_)
    if (link->take_question())
      link->tell_status({call_, signature_, 0, board.presence.load(), board.suspect.load(), description_});
}

Failure Endpoint::find_dead() const {
  std::vector<pollfd> processes;
  std::vector<uint32_t> ranks;
  for (uint32_t peer = 0; peer < num_ranks_; ++peer)
    if (peers_[peer].process.get() >= 0) {
      processes.push_back({peers_[peer].process.get(), POLLIN, 0});
      ranks.push_back(peer);
    }
  if (!processes.empty() && poll(processes.data(), processes.size(), 0) > 0)
    for (size_t k = 0; k < processes.size(); ++k)
      if (processes[k].revents & POLLIN) {
        const bool left = board(ranks[k])->presence.load() == Presence::left;
        if (left) continue;  // it said farewell before it ended
        std::ostringstream text;
        text << "rank " << ranks[k] << " died: its process ended";
        return {FailureKind::peer_lost, static_cast<int32_t>(ranks[k]), text.str()};
      }
  for (const auto& [key, link] : links_)
    if (link->state() == SocketLink::State::broken) {
      std::ostringstream text;
      text << "rank " << key.first << " was lost: " << link->reason();
      return {FailureKind::peer_lost, static_cast<int32_t>(key.first), text.str()};
    }
  return {};
}

bool Endpoint::has_left(uint32_t peer) const {
  if (is_local(peer)) return board(peer)->presence.load() == Presence::left;
  for (auto link = links_.lower_bound({peer, 0}); link != links_.end() && link->first.first == peer; ++link)
    if (link->second->state() == SocketLink::State::farewell) return true;
  return false;
}

Failure Endpoint::differs(uint32_t peer, const std::string& description) const {
  std::ostringstream text;
  text << "call " << call_ << " differs between ranks: rank " << peer << " calls " << description << ", rank " << rank_
       << " calls " << description_;
  return {FailureKind::mismatch, static_cast<int32_t>(peer), text.str()};
}

Failure Endpoint::find_mismatch() const {
  for (uint32_t peer = 0; peer < num_ranks_; ++peer) {
    if (peer == rank_) continue;
    const View seen = view(peer);
    if (seen.known && seen.call == call_ && seen.signature != signature_) return differs(peer, seen.description);
  }
  return {};
}

// A peer that will do nothing more for this call: it is gone, or has done its part, which then was another one.
Failure Endpoint::find_missing(const std::vector<uint32_t>& awaited) const {
  if (const Failure dead = find_dead()) return dead;
  for (const uint32_t peer : awaited) {
    if (has_left(peer)) {
      std::ostringstream text;
      text << "rank " << peer << " has closed its communicator, but call " << call_ << " (" << description_
           << ") still needs it";
      return {FailureKind::peer_lost, static_cast<int32_t>(peer), text.str()};
    }
    if (is_local(peer) && view(peer).call > call_) return differs(peer, "something else, which it has finished");
  }
  return {};
}

Failure Endpoint::told_failure() const {
  for (const auto& [key, link] : links_)
    if (link->failure()) return link->failure();
  return {};
}

Failure Endpoint::failure_before(const std::vector<Connection>& sends) {
  if (!has_links()) return {};
  pump();
  if (Failure told = told_failure()) return told;
  for (const Connection& connection : sends) {
    const auto found = links_.find({connection.peer, connection.index});
    if (found == links_.end() || found->second->state() == SocketLink::State::open) continue;
    std::ostringstream text;
    if (found->second->state() == SocketLink::State::farewell)
      text << "rank " << connection.peer << " has closed its communicator, but the next call still needs it";
    else
      text << "rank " << connection.peer << " was lost: " << found->second->reason();
    return {FailureKind::peer_lost, static_cast<int32_t>(connection.peer), text.str()};
  }
  return {};
}

PeerCheck Endpoint::check_peers(const std::vector<uint32_t>& awaited) {
  own_board().heartbeat.store(now(), std::memory_order_relaxed);
  take_offered();
  answer_questions();
  if (has_failed()) return {failure(), {}};
  if (Failure told = told_failure()) return {told, {}};
  if (const Failure mismatch = find_mismatch()) return {mismatch, {}};
  for (const uint32_t peer : awaited)
    if (const auto link = links_.find({peer, 0}); link != links_.end()) {
      link->second->ask_status();
      asked_since_.try_emplace(peer, now());
    }
  own_board().suspect.store(suspect(awaited).first, std::memory_order_relaxed);
  return {{}, find_missing(awaited)};
}

std::pair<int32_t, std::string> Endpoint::suspect(const std::vector<uint32_t>& awaited) const {
  const auto evidence = [this](uint32_t peer) -> std::string {
    const View seen = view(peer);
    if (!seen.known) {
      const auto asked = asked_since_.find(peer);
      return asked != asked_since_.end() && now() - asked->second > stale_ ? "it has not answered at all" : "";
    }
    if (seen.call > call_ || (seen.call == call_ && seen.presence == Presence::outside)) return "";
    if (seen.presence != Presence::outside)  // where it shows life it waits itself, maybe for whom we look for
      return seen.age > stale_ ? "it shows no sign of life in call " + std::to_string(seen.call) : "";
    return "it has not entered call " + std::to_string(seen.call + 1);
  };
  for (const uint32_t peer : awaited)
    if (const std::string words = evidence(peer); !words.empty()) return {static_cast<int32_t>(peer), words};
  for (const uint32_t peer : awaited)
    if (const View seen = view(peer); seen.known && seen.suspect >= 0 && seen.suspect != static_cast<int32_t>(rank_))
      return {seen.suspect, "that is for whom rank " + std::to_string(peer) + " waits"};
  for (uint32_t peer = 0; peer < num_ranks_; ++peer)
    if (peer != rank_ && is_local(peer))
      if (const std::string words = evidence(peer); !words.empty()) return {static_cast<int32_t>(peer), words};
  return {-1, ""};
}

int32_t Endpoint::most_silent(const std::vector<uint32_t>& awaited) const {
  for (const uint32_t peer : awaited)
    if (!view(peer).known) return static_cast<int32_t>(peer);
  return awaited.empty() ? static_cast<int32_t>(rank_) : static_cast<int32_t>(awaited[0]);
}

}  // namespace hemiola::runtime
