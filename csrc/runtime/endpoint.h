// A rank's membership in one communicator: its segment, its peers and the connections to them.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/board.h"
#include "runtime/mapping.h"
#include "runtime/part.h"
#include "runtime/payload_buffers.h"
#include "runtime/queue.h"
#include "runtime/socket_link.h"

namespace hemiola::runtime {

// What a liveness check of the peers finds. A peer that died, left or is in a later call is lost only if what it
// published before does not help either: the caller reads its queues once more before it takes `maybe` for certain.
struct PeerCheck {
  Failure certain, maybe;
};

// When links wake a rank that sleeps: never, for every packet, or only when much can be read or sent.
enum class LinkWatch { never, every_packet, rarely };

class Endpoint {
 public:
  Endpoint(uint32_t rank, uint32_t num_ranks, QueueShape shape);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  uint32_t rank() const { return rank_; }
  uint32_t num_ranks() const { return num_ranks_; }
  QueueShape shape() const { return shape_; }
  uint32_t num_local_ranks() const { return num_local_; }
  int segment() const { return segment_.get(); }

  // A peer on this host: `fd` is its segment (taken over), `pid` its process, 0 when it is a thread of this one.
  void join_local(uint32_t peer, int fd, pid_t pid);
  // For ranks that poll links while peers of their host have news: the own pipe's writing end, and a peer's.
  int open_pipe();
  void join_pipe(uint32_t peer, int fd);
  // A link to a peer on another host, the index-th of the pair (`fd` is taken over).
  void join_socket(uint32_t peer, uint32_t index, int fd);
  // The same from any thread, at any time; the link is there after the next take_offered(), which every call and every
  // liveness check begins with.
  void offer_socket(uint32_t peer, uint32_t index, int fd);
  void take_offered();
  // Whether a link is there or was offered; from any thread, at any time.
  bool knows_link(uint32_t peer, uint32_t index);
  bool is_local(uint32_t peer) const { return peers_[peer].board != nullptr; }
  bool has_link(uint32_t peer, uint32_t index) const { return links_.contains({peer, index}); }

  PayloadBuffers& payload_buffers() { return payload_buffers_; }
  SendEnd& send_end(Connection connection);
  ReceiveEnd& receive_end(Connection connection);
  // Null for a peer on another host, whose news come through its link.
  Board* board(uint32_t peer) const { return peers_[peer].board; }
  Board& own_board() const { return *peers_[rank_].board; }
  Bell bell(uint32_t peer) const { return {peers_[peer].board, peers_[peer].pipe.get()}; }

  // Numbers a call, tells the peers about it and returns the signature that its messages carry.
  uint64_t begin_call(uint64_t content, const std::string& description);
  void end_call();
  // While links for the next call are being made: the peer that is waited for; -1 when they are there.
  void set_linking(int32_t peer);
  uint64_t call() const { return call_; }

  // The links of the peers; pump() moves all of them.
  bool has_links() const { return !links_.empty(); }
  bool pump();
  bool links_are_drained() const;
  std::vector<uint32_t> undrained_peers() const;

  // Sleeps until somebody has news for this rank or the time is over. First announce, then look again, then sleep.
  uint32_t announce_sleep();
  void sleep(uint32_t bell, int64_t nanoseconds, LinkWatch watch);
  void end_sleep();

  // The failure that ended this communicator, if any.
  Failure failure() const;
  bool has_failed() const { return own_board().failed.load(std::memory_order_acquire) == 2; }
  // Ends the communicator: the first failure wins, and every rank of the host is told. From any thread.
  void post_failure(const Failure& failure);
  // The same, and tells the ranks behind links; from the thread that pumps them. Returns the first failure.
  Failure fail(const Failure& failure);
  // A failure that links have brought in.
  Failure told_failure() const;
  // Before a call: that, or that a peer behind a link to which the call sends is gone.
  Failure failure_before(const std::vector<Connection>& sends);
  // Checks what keeps this rank waiting for `awaited`. Where nothing is wrong, notes who is late.
  PeerCheck check_peers(const std::vector<uint32_t>& awaited);
  // How long a rank that waits may show no sign of life before it is suspected.
  void set_stale(int64_t nanoseconds) { stale_ = nanoseconds; }
  // The rank for which everybody waits, as far as is known, and in words why.
  std::pair<int32_t, std::string> suspect(const std::vector<uint32_t>& awaited) const;

  // Where there is no evidence: one that has never said anything, or the first.
  int32_t most_silent(const std::vector<uint32_t>& awaited) const;

  void leave();
  void forget_after_fork();
  bool is_usable() const { return !left_ && !forked_; }
  bool is_forked() const { return forked_; }

 private:
  QueuePlace place(uint32_t receiver, uint32_t sender, uint32_t index);

  struct Peer {
    Descriptor segment;
    Mapping page;
    Board* board = nullptr;
    Descriptor process;  // a pidfd
    Descriptor pipe;     // its writing end
  };
  // What is known of a peer, wherever it is.
  struct View {
    bool known = false;
    uint64_t call = 0, signature = 0;
    Presence presence = Presence::outside;
    int32_t suspect = -1;
    int64_t age = 0;  // nanoseconds since its last sign of life
    std::string description;
  };

  View view(uint32_t peer) const;
  void answer_questions();
  void tell_late_comer(int fd);
  Failure as_told(const Failure& failure) const;
  Failure find_dead() const;
  Failure find_mismatch() const;
  Failure find_missing(const std::vector<uint32_t>& awaited) const;
  Failure differs(uint32_t peer, const std::string& description) const;
  bool has_left(uint32_t peer) const;
  void close_peers();
  void keep_own_board();

  uint32_t rank_, num_ranks_, num_local_ = 1;
  QueueShape shape_;
  Descriptor segment_, pipe_;  // of the pipe the reading end
  std::vector<Peer> peers_;
  PayloadBuffers payload_buffers_;
  std::map<std::pair<uint32_t, uint32_t>, SendEnd> local_sends_;
  std::map<std::pair<uint32_t, uint32_t>, ReceiveEnd> local_receives_;
  std::map<std::pair<uint32_t, uint32_t>, std::unique_ptr<SocketLink>> links_;
  std::vector<std::unique_ptr<SocketLink>> retired_links_;
  struct Offer {
    uint32_t peer, index;
    Descriptor socket;
  };
  std::mutex offering_;
  std::vector<Offer> offered_;
  std::atomic<bool> has_offers_{false};
  std::set<std::pair<uint32_t, uint32_t>> known_links_;  // guarded by `offering_`
  uint64_t call_ = 0, signature_ = 0;
  std::string description_;
  int64_t stale_ = 1'000'000'000;
  // Peers behind links that were asked in this call how they are, and since when.
  std::map<uint32_t, int64_t> asked_since_;
  bool told_links_ = false, left_ = false, forked_ = false;
};

}  // namespace hemiola::runtime
