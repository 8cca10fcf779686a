#include "runtime/endpoint.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>
#include <mutex>
#include <set>
#include <sstream>
#include <system_error>

#include "enforce.h"
#include "runtime/clock.h"

namespace hemiola::runtime {

namespace {

constexpr int64_t kTellingTime = 100'000'000;  // to hand a failure to the sockets

long futex(std::atomic<uint32_t>* word, int operation, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), operation, value, timeout, nullptr, 0);
}

// A child that was forked off keeps none of its parent's connections: a peer must see the parent's end.
std::mutex registry_mutex;
std::set<Endpoint*> registry;

void before_fork() {
  registry_mutex.lock();
  for (Endpoint* endpoint : registry) endpoint->payload_buffers().lock();
}
void after_fork_in_parent() {
  for (Endpoint* endpoint : registry) endpoint->payload_buffers().unlock();
  registry_mutex.unlock();
}
void after_fork_in_child() {
  for (Endpoint* endpoint : registry) {
    endpoint->payload_buffers().unlock();
    endpoint->forget_after_fork();
  }
  registry_mutex.unlock();
}

void enter(Endpoint* endpoint) {
  static const int once = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  ENFORCE(once == 0);
  const std::lock_guard lock(registry_mutex);
  registry.insert(endpoint);
}

uint64_t mix(uint64_t a, uint64_t b) {
  a ^= b + 0x9e3779b97f4a7c15 + (a << 6) + (a >> 2);
  a ^= a >> 30;
  a *= 0xbf58476d1ce4e5b9;
  a ^= a >> 27;
  a *= 0x94d049bb133111eb;
  return a ^ a >> 31;
}

}  // namespace

Endpoint::Endpoint(uint32_t rank, uint32_t num_ranks, QueueShape shape)
    : rank_(rank), num_ranks_(num_ranks), shape_(shape), peers_(num_ranks), payload_buffers_(num_ranks, shape) {
  ENFORCE(rank < num_ranks && shape.num_slots > 0 && shape.slot_bytes % kLine == 0 && shape.slot_bytes > 0);
  segment_ = make_memory_file(payload_buffers_.segment_bytes());
  payload_buffers_.set_segment(rank, segment_.get());
  Peer& self = peers_[rank];
  self.page = Mapping(segment_.get(), 0, kPage);
  self.board = reinterpret_cast<Board*>(self.page.data());
  self.board->suspect.store(-1);
  self.board->heartbeat.store(now());
  enter(this);
}

// What leave() may throw is a broken invariant, which ends the process here.
Endpoint::~Endpoint() {  // NOLINT(bugprone-exception-escape)
  leave();
  const std::lock_guard lock(registry_mutex);
  registry.erase(this);
}

void Endpoint::join_local(uint32_t peer, int fd, pid_t pid) {
  Descriptor segment(fd);
  ENFORCE(peer < num_ranks_ && peer != rank_ && !is_local(peer));
  Peer& entry = peers_[peer];
  entry.page = Mapping(fd, 0, kPage);
  entry.segment = std::move(segment);
  payload_buffers_.set_segment(peer, fd);
  entry.board = reinterpret_cast<Board*>(entry.page.data());
  if (pid != 0) {
    entry.process = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (entry.process.get() < 0) throw std::system_error(errno, std::generic_category(), "watching a peer's process");
  }
  ++num_local_;
}

int Endpoint::open_pipe() {
  int ends[2];
  if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "opening a pipe");
  pipe_ = Descriptor(ends[0]);
  peers_[rank_].pipe = Descriptor(ends[1]);
  return ends[1];
}

void Endpoint::join_pipe(uint32_t peer, int fd) {
  Descriptor pipe(fd);
  ENFORCE(peer < num_ranks_ && is_local(peer));
  peers_[peer].pipe = std::move(pipe);
}

void Endpoint::join_socket(uint32_t peer, uint32_t index, int fd) {
  Descriptor socket(fd);
  ENFORCE(peer < num_ranks_ && peer != rank_ && !is_local(peer) && !has_link(peer, index));
  links_[{peer, index}] = std::make_unique<SocketLink>(socket.release(), shape_);
  known_links_.insert({peer, index});
}

void Endpoint::offer_socket(uint32_t peer, uint32_t index, int fd) {
  Descriptor socket(fd);
  const std::lock_guard lock(offering_);
  if (peer >= num_ranks_ || peer == rank_ || index >= kMaxConnections || left_ || forked_) return;
  if (has_failed())
    tell_late_comer(socket.release());
  else
    offered_.push_back({peer, index, std::move(socket)});
  known_links_.insert({peer, index});
  has_offers_.store(true);
}

bool Endpoint::knows_link(uint32_t peer, uint32_t index) {
  const std::lock_guard lock(offering_);
  return known_links_.contains({peer, index});
}

// Nobody looks at the offers of a group that is over: who comes now hears at once why.
void Endpoint::tell_late_comer(int fd) {
  auto link = std::make_unique<SocketLink>(fd, shape_);
  link->tell_failure(as_told(failure()));
  for (const int64_t end = now() + kTellingTime; !link->is_drained() && !link->has_ended() && now() < end;) {
    link->pump();
    sched_yield();
  }
  retired_links_.push_back(std::move(link));
}

void Endpoint::take_offered() {
  if (!has_offers_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(offering_);
  for (Offer& offer : offered_) {
    // A peer that gave up a first attempt comes again; a run may still hold on to the ends of the old link.
    const auto found = links_.find({offer.peer, offer.index});
    if (found != links_.end() && !found->second->has_ended()) continue;
    if (found != links_.end()) {
      retired_links_.push_back(std::move(found->second));
      links_.erase(found);
    }
    if (!is_local(offer.peer)) join_socket(offer.peer, offer.index, offer.socket.release());
  }
  offered_.clear();
  has_offers_.store(false);
}

SendEnd& Endpoint::send_end(Connection connection) {
  const auto [peer, index] = connection;
  ENFORCE(peer < num_ranks_ && peer != rank_ && index < kMaxConnections);
  if (!is_local(peer)) {
    ENFORCE(has_link(peer, index), "no link ", index, " to rank ", peer);
    return links_.at({peer, index})->send_end();
  }
  const auto found = local_sends_.find({peer, index});
  if (found != local_sends_.end()) return found->second;
  return local_sends_.emplace(std::pair{peer, index}, SendEnd(place(peer, rank_, index), shape_)).first->second;
}

ReceiveEnd& Endpoint::receive_end(Connection connection) {
  const auto [peer, index] = connection;
  ENFORCE(peer < num_ranks_ && peer != rank_ && index < kMaxConnections);
  if (!is_local(peer)) {
    ENFORCE(has_link(peer, index), "no link ", index, " to rank ", peer);
    return links_.at({peer, index})->receive_end();
  }
  const auto found = local_receives_.find({peer, index});
  if (found != local_receives_.end()) return found->second;
  return local_receives_.emplace(std::pair{peer, index}, ReceiveEnd(place(rank_, peer, index), shape_)).first->second;
}

QueuePlace Endpoint::place(uint32_t receiver, uint32_t sender, uint32_t index) {
  const uint64_t queue = payload_buffers_.queue(receiver, sender, index);
  return {payload_buffers_.queue_memory(queue), payload_buffers_.first_buffer(queue), &payload_buffers_};
}

uint64_t Endpoint::begin_call(uint64_t content, const std::string& description) {
  // Chained, so that ranks which once called different things never agree again.
  signature_ = mix(content, signature_ + ++call_);
  if (description_ != description) {
    description_ = description;
    own_board().description.write(description);
  }
  asked_since_.clear();
  Board& board = own_board();
  board.suspect.store(-1, std::memory_order_relaxed);
  board.signatures[call_ & 1].store(signature_, std::memory_order_release);
  board.presence.store(Presence::inside, std::memory_order_relaxed);
  board.call.store(call_, std::memory_order_release);
  return signature_;
}

void Endpoint::end_call() { own_board().presence.store(Presence::outside, std::memory_order_relaxed); }

void Endpoint::set_linking(int32_t peer) {
  Board& board = own_board();
  board.suspect.store(peer, std::memory_order_relaxed);
  board.heartbeat.store(now(), std::memory_order_relaxed);
  board.presence.store(peer < 0 ? Presence::outside : Presence::linking, std::memory_order_relaxed);
}

bool Endpoint::pump() {
  bool moved = false;
  for (auto& [key, link] : links_) moved |= link->pump();
  return moved;
}

bool Endpoint::links_are_drained() const {
  return std::ranges::all_of(links_, [](const auto& entry) { return entry.second->is_drained(); });
}

std::vector<uint32_t> Endpoint::undrained_peers() const {
  std::vector<uint32_t> peers;
  for (const auto& [key, link] : links_)
    if (!link->is_drained()) peers.push_back(key.first);
  return peers;
}

uint32_t Endpoint::announce_sleep() {
  Board& board = own_board();
  const uint32_t bell = board.bell.load(std::memory_order_seq_cst);
  board.sleepers.fetch_add(1, std::memory_order_seq_cst);
  return bell;
}

void Endpoint::sleep(uint32_t bell, int64_t nanoseconds, LinkWatch watch) {
  const timespec time{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
  if (watch == LinkWatch::never || !has_links()) {
    futex(&own_board().bell, FUTEX_WAIT, bell, &time);
    return;
  }
  Board& board = own_board();
  std::vector<pollfd> watched;
  if (pipe_.get() >= 0) watched.push_back({pipe_.get(), POLLIN, 0});
  for (const auto& [key, link] : links_) {
    const int events = (link->wants_to_read() ? POLLIN : 0) | (link->wants_to_write() ? POLLOUT : 0);
    link->wake_rarely(watch == LinkWatch::rarely);
    if (!link->has_ended() && events != 0) watched.push_back({link->fd(), static_cast<short>(events), 0});
  }
  board.polls.fetch_add(1, std::memory_order_seq_cst);
  if (board.bell.load(std::memory_order_seq_cst) == bell) ppoll(watched.data(), watched.size(), &time, nullptr);
  board.polls.fetch_sub(1, std::memory_order_seq_cst);
  char notes[64];
  while (pipe_.get() >= 0 && read(pipe_.get(), notes, sizeof(notes)) == sizeof(notes)) continue;
}

void Endpoint::end_sleep() { own_board().sleepers.fetch_sub(1, std::memory_order_seq_cst); }

void Bell::wake() const {
  board->bell.fetch_add(1, std::memory_order_seq_cst);
  futex(&board->bell, FUTEX_WAKE, INT_MAX, nullptr);
  const char note = 0;
  if (pipe >= 0 && board->polls.load(std::memory_order_seq_cst) != 0)
    if (write(pipe, &note, 1) < 0) return;  // a full pipe wakes as well
}

Failure Endpoint::failure() const {
  if (!has_failed()) return {};
  const Board& board = own_board();
  return {static_cast<FailureKind>(board.failure_kind.load()), board.failure_rank.load(), board.failure_text.read()};
}

namespace {

// Writes a failure on a board unless another is there.
void post(Board& board, const Failure& failure) {
  uint32_t none = 0;
  if (!board.failed.compare_exchange_strong(none, 1)) return;
  board.failure_kind.store(static_cast<uint32_t>(failure.kind));
  board.failure_rank.store(failure.rank);
  board.failure_text.write(failure.text);
  board.failed.store(2, std::memory_order_seq_cst);
}

}  // namespace

void Endpoint::post_failure(const Failure& failure) {
  post(own_board(), failure);
  for (const int64_t end = now() + 10'000'000; !has_failed() && now() < end;) sched_yield();
  if (!has_failed()) {  // whoever began to write died on the way
    own_board().failed.store(0);
    post(own_board(), failure);
  }
  const Failure first = this->failure();
  bell(rank_).ring();
  for (uint32_t peer = 0; peer < num_ranks_; ++peer)
    if (peer != rank_ && is_local(peer)) {
      post(*board(peer), as_told(first));
      bell(peer).ring();
    }
}

// What others hear of it: that this rank was interrupted is the loss of this rank to them.
Failure Endpoint::as_told(const Failure& failure) const {
  if (failure.kind != FailureKind::interrupted && failure.kind != FailureKind::internal) return failure;
  std::ostringstream text;
  text << "rank " << rank_ << " gave up call " << own_board().call.load() << ": " << failure.text;
  return {FailureKind::peer_lost, static_cast<int32_t>(rank_), text.str()};
}

Failure Endpoint::fail(const Failure& failure) {
  post_failure(failure);
  const Failure first = this->failure();
  if (std::exchange(told_links_, true)) return first;
  take_offered();
  for (auto& [key, link] : links_) link->tell_failure(as_told(first));
  for (const int64_t end = now() + kTellingTime; !links_are_drained() && now() < end;) {
    pump();
    sched_yield();
  }
  return first;
}

void Endpoint::leave() {
  if (left_ || forked_) return;
  take_offered();
  {
    const std::lock_guard lock(offering_);
    left_ = true;
  }
  own_board().presence.store(Presence::left, std::memory_order_seq_cst);
  for (uint32_t peer = 0; peer < num_ranks_; ++peer)
    if (peer != rank_) bell(peer).ring();
  for (auto& [key, link] : links_) link->tell_farewell();
  for (const int64_t end = now() + 1'000'000'000; now() < end; sched_yield()) {
    pump();
    bool finished = true;
    for (auto& [key, link] : links_) finished &= link->has_ended() || (link->is_drained() && link->finish());
    if (finished) break;
  }
  close_peers();
}

// Gives back everything, except what failures are read from.
void Endpoint::close_peers() {
  links_.clear();
  retired_links_.clear();
  local_sends_.clear();
  local_receives_.clear();
  payload_buffers_.clear();
  keep_own_board();
  for (uint32_t peer = 0; peer < num_ranks_; ++peer)
    if (peer != rank_) peers_[peer] = Peer();
  segment_ = Descriptor();
  pipe_ = Descriptor();
}

// A copy of the own board in private memory: one page of the segment would keep all of it.
void Endpoint::keep_own_board() {
  const Failure last = failure();
  Peer self;
  self.page = Mapping(kPage);
  self.board = reinterpret_cast<Board*>(self.page.data());
  self.board->presence.store(Presence::left);
  if (last) post(*self.board, last);
  peers_[rank_] = std::move(self);
}

void Endpoint::forget_after_fork() {
  forked_ = true;
  for (auto& [key, link] : links_) link->drop();
  close_peers();
}

}  // namespace hemiola::runtime
