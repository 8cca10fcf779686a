#include "runtime/socket_link.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "enforce.h"
#include "runtime/clock.h"

namespace hemiola::runtime {

namespace {

constexpr uint32_t kMagic = 0x48454d49;
constexpr size_t kMaxControl = 2048;
// What the kernel holds that the network cannot take yet. Where somebody waits, more waits in the slots instead: in the
// kernel it would fall out of the caches. Beside a computation it must last until the progress thread gets its core.
constexpr int kUnsentBytes = 128 * 1024, kUnsentBeside = 2 * 1024 * 1024;
constexpr size_t kPieceBytes = 128 * 1024;

// The payload of a status frame; text of the description follows.
struct StatusFields {
  uint64_t call, signature;
  uint32_t presence;
  int32_t suspect;
};
// The payload of a failure frame; text follows.
struct FailureFields {
  uint32_t kind;
  int32_t rank;
};

template <typename Fields>
std::vector<std::byte> pack(const Fields& fields, const std::string& text) {
  const size_t length = std::min(text.size(), kMaxControl - sizeof(Fields));
  std::vector<std::byte> bytes(sizeof(Fields) + length);
  std::memcpy(bytes.data(), &fields, sizeof(Fields));
  std::memcpy(bytes.data() + sizeof(Fields), text.data(), length);
  return bytes;
}

template <typename Fields>
bool unpack(const std::vector<std::byte>& bytes, Fields& fields, std::string& text) {
  if (bytes.size() < sizeof(Fields)) return false;
  std::memcpy(&fields, bytes.data(), sizeof(Fields));
  text.assign(reinterpret_cast<const char*>(bytes.data()) + sizeof(Fields), bytes.size() - sizeof(Fields));
  return true;
}

}  // namespace

SocketLink::SocketLink(int fd, QueueShape shape)
    : socket_(fd),
      shape_(shape),
      outgoing_(shape.num_bytes()),
      incoming_(shape.num_bytes()),
      to_socket_({outgoing_.data()}, shape),
      into_queue_({incoming_.data()}, shape),
      from_socket_({incoming_.data()}, shape),
      out_of_queue_({outgoing_.data()}, shape),
      staged_(kStagedBytes) {
  // The buffer that was read last is filled next: this rank is the reader and the writer of both queues, and has it in
  // its caches.
  to_socket_.set_span(1);
  into_queue_.set_span(1);
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
    throw std::system_error(errno, std::generic_category(), "a link's socket");
  // A socket that is not TCP has no such limit, and needs none.
  setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes, sizeof(kUnsentBytes));
}

bool SocketLink::pump() {
  if (state_ == State::broken) return false;
  const bool out = pump_out();
  return pump_in() || out;
}

bool SocketLink::pump_out() {
  bool moved = false;
  while (state_ != State::broken && gather() && send_gathered(moved)) continue;
  return moved;
}

// Takes what there is to send, news before messages; false when there is nothing.
bool SocketLink::gather() {
  if (first_out_ < num_out_) return true;
  first_out_ = num_out_ = sent_ = 0;
  if (!control_.empty()) {
    out_control_ = std::move(control_.front().second);
    out_frames_[0] = {kMagic, control_.front().first, static_cast<uint32_t>(out_control_.size()), 0, 0};
    out_payloads_[0] = out_control_.data();
    control_.pop_front();
    ++num_out_;
  }
  for (uint64_t ahead = 0; num_out_ < kMaxTogether; ++ahead, ++num_out_) {
    const SlotHeader* message = out_of_queue_.peek(ahead);
    if (message == nullptr) break;
    out_frames_[num_out_] = {kMagic, kMessage, message->num_bytes, 0, message->signature};
    out_payloads_[num_out_] = out_of_queue_.payload(message);
  }
  return num_out_ > 0;
}

// Hands over what was gathered; false when the kernel is full or the connection is lost.
bool SocketLink::send_gathered(bool& moved) {
  std::array<iovec, 2 * kMaxTogether> parts;
  size_t num_parts = 0, skip = sent_;
  const auto add = [&](const void* data, size_t num_bytes) {
    const size_t skipped = std::min(skip, num_bytes);
    skip -= skipped;
    if (skipped < num_bytes)
      parts[num_parts++] = {const_cast<std::byte*>(static_cast<const std::byte*>(data)) + skipped, num_bytes - skipped};
  };
  for (size_t k = first_out_; k < num_out_; ++k) {
    add(&out_frames_[k], sizeof(Frame));
    add(out_payloads_[k], out_frames_[k].num_bytes);
  }
  msghdr header{};
  header.msg_iov = parts.data();
  header.msg_iovlen = num_parts;
  const ssize_t count = sendmsg(socket_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count < 0) {
    if (errno == EINTR) return true;
    if (errno != EAGAIN && errno != EWOULDBLOCK) lose_peer(std::strerror(errno));
    return false;
  }
  sent_ += static_cast<size_t>(count);
  for (; first_out_ < num_out_; ++first_out_) {
    const bool is_message = out_frames_[first_out_].kind == kMessage;
    moved |= is_message && sent_ > 0;
    const size_t size = sizeof(Frame) + out_frames_[first_out_].num_bytes;
    if (sent_ < size) return false;
    sent_ -= size;
    if (is_message) out_of_queue_.release();
  }
  return true;
}

// Nothing can be sent any more. What the peer said before it went may tell why, so that is read first.
void SocketLink::lose_peer(const char* reason) {
  pump_in();
  if (state_ != State::broken) break_off(state_ == State::farewell ? "it has closed its communicator" : reason);
}

// Unpacks what has been read and reads on, until the socket is empty or every slot is taken. A read that gives less
// than was asked for has emptied the socket, which saves asking once more.
bool SocketLink::pump_in() {
  moved_in_ = false;
  while (state_ != State::broken && unpack_staged()) {
    const size_t capacity = in_missing_ + kStagedBytes - (staged_end_ - staged_begin_);
    const ssize_t count = read_on();
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (count <= 0) {
      ended_ = true;
      if (state_ == State::open) break_off(count == 0 ? "its connection ended" : std::strerror(errno));
      break;
    }
    if (static_cast<size_t>(count) < capacity) {
      unpack_staged();
      break;
    }
  }
  return moved_in_;
}

// Reads the remainder of a payload to its place and what follows it into the staging buffer, at once.
ssize_t SocketLink::read_on() {
  const size_t left = staged_end_ - staged_begin_;  // less than a header
  if (left > 0) std::memmove(staged_.data(), staged_.data() + staged_begin_, left);
  staged_begin_ = 0;
  staged_end_ = left;
  iovec parts[2] = {{in_payload_, in_missing_}, {staged_.data() + left, kStagedBytes - left}};
  msghdr header{};
  header.msg_iov = in_missing_ > 0 ? parts : parts + 1;
  header.msg_iovlen = in_missing_ > 0 ? 2 : 1;
  const ssize_t count = recvmsg(socket_.get(), &header, MSG_DONTWAIT);
  if (count <= 0) return count;
  const size_t direct = std::min(static_cast<size_t>(count), in_missing_);
  in_payload_ += direct;
  in_missing_ -= direct;
  staged_end_ += static_cast<size_t>(count) - direct;
  moved_in_ |= direct > 0 && in_frame_.kind == kMessage;
  return count;
}

// Takes apart what is staged; false when it has to stay there, because every slot is taken or it is no frame.
bool SocketLink::unpack_staged() {
  for (;;) {
    if (!in_is_open_) {
      if (staged_end_ - staged_begin_ < sizeof(Frame)) return true;
      std::memcpy(&in_frame_, staged_.data() + staged_begin_, sizeof(Frame));
      if (!begin_frame_in()) return false;
      staged_begin_ += sizeof(Frame);
    }
    const size_t count = std::min(in_missing_, staged_end_ - staged_begin_);
    if (count > 0) std::memcpy(in_payload_, staged_.data() + staged_begin_, count);
    staged_begin_ += count;
    in_payload_ += count;
    in_missing_ -= count;
    if (in_missing_ > 0) return true;
    end_frame_in();
  }
}

// Finds the place of a payload. Its length is checked before any memory is taken for it.
bool SocketLink::begin_frame_in() {
  const bool is_message = in_frame_.kind == kMessage;
  const size_t limit = is_message ? shape_.slot_bytes : kMaxControl;
  if (in_frame_.magic != kMagic || in_frame_.kind < kMessage || in_frame_.kind > kFarewell ||
      in_frame_.num_bytes > limit) {
    break_off("it sent bytes that are no frame");
    return false;
  }
  if (is_message) {
    in_payload_ = into_queue_.acquire(in_frame_.num_bytes);
    is_full_ = in_payload_ == nullptr;
    if (is_full_) return false;
    moved_in_ = true;
  } else {
    in_control_.resize(in_frame_.num_bytes);
    in_payload_ = in_control_.data();
  }
  in_missing_ = in_frame_.num_bytes;
  in_is_open_ = true;
  return true;
}

void SocketLink::end_frame_in() {
  in_is_open_ = false;
  if (in_frame_.kind == kMessage)
    into_queue_.publish(in_frame_.signature, in_frame_.num_bytes);
  else
    take_control();
}

// The sender has begun a frame and sends all of it, so what is waited for comes. Nothing but the frame is waited for:
// what follows it may be news, which are read at once.
void SocketLink::wake_rarely(bool rarely) {
  if (has_ended()) return;
  const int least = rarely && in_is_open_ ? static_cast<int>(std::clamp<size_t>(in_missing_, 1, kPieceBytes)) : 1;
  if (least != least_readable_ && setsockopt(socket_.get(), SOL_SOCKET, SO_RCVLOWAT, &least, sizeof(least)) == 0)
    least_readable_ = least;
  if (rarely == wakes_rarely_) return;
  wakes_rarely_ = rarely;
  const int most = rarely ? kUnsentBeside : kUnsentBytes;
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most, sizeof(most));
}

bool SocketLink::finish() {
  if (has_ended()) return true;
  if (!std::exchange(finishing_, true)) shutdown(socket_.get(), SHUT_WR);
  // What is unread when a socket closes makes the kernel drop what it has not sent, so it is read until then.
  std::byte unread[4096];
  while (recv(socket_.get(), unread, sizeof(unread), MSG_DONTWAIT) > 0) continue;
  int unsent = 0;
  return ioctl(socket_.get(), SIOCOUTQ, &unsent) != 0 || unsent == 0;
}

void SocketLink::take_control() {
  std::string text;
  switch (in_frame_.kind) {
    case kQuestion:
      asked_ = true;
      break;
    case kStatus: {
      StatusFields fields;
      if (unpack(in_control_, fields, text)) {
        status_ = {fields.call, fields.signature, now(), static_cast<Presence>(fields.presence), fields.suspect, text};
      }
      break;
    }
    case kFailure: {
      FailureFields fields;
      if (unpack(in_control_, fields, text)) {
        failure_ = {static_cast<FailureKind>(fields.kind), fields.rank, text};
      }
      break;
    }
    default:
      state_ = State::farewell;
  }
}

void SocketLink::queue_control(Kind kind, std::vector<std::byte> payload) {
  if (state_ == State::broken) return;
  // Of each kind only the newest waits: a link that stands still does not pile up questions.
  std::erase_if(control_, [kind](const auto& waiting) { return waiting.first == kind; });
  control_.emplace_back(kind, std::move(payload));
}

void SocketLink::ask_status() { queue_control(kQuestion, {}); }

void SocketLink::tell_status(const RemoteStatus& status) {
  const StatusFields fields{status.call, status.signature, static_cast<uint32_t>(status.presence), status.suspect};
  queue_control(kStatus, pack(fields, status.description));
}

void SocketLink::tell_failure(const Failure& failure) {
  queue_control(kFailure, pack(FailureFields{static_cast<uint32_t>(failure.kind), failure.rank}, failure.text));
}

void SocketLink::tell_farewell() { queue_control(kFarewell, {}); }

void SocketLink::break_off(std::string reason) {
  state_ = State::broken;
  reason_ = std::move(reason);
}

void SocketLink::drop() {
  socket_ = Descriptor();
  state_ = State::broken;
}

}  // namespace hemiola::runtime
