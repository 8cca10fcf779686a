// A connection across hosts: a queue before the socket on one side, one behind it on the other.
//
// The executor sees the same ends as in shared memory; pump() moves what lies in between and never blocks. One
// socket serves the two opposite connections of a pair of ranks. Beside messages it carries what ranks on
// one host read from each other's boards: status, failure and farewell.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "runtime/board.h"
#include "runtime/mapping.h"
#include "runtime/queue.h"

namespace hemiola::runtime {

// What a remote peer last said of itself.
struct RemoteStatus {
  uint64_t call = 0, signature = 0;
  int64_t received = 0;  // monotonic nanoseconds; 0: never
  Presence presence = Presence::outside;
  int32_t suspect = -1;
  std::string description;
};

class SocketLink {
 public:
  enum class State { open, farewell, broken };

  // Takes a connected socket whose peer has proven that it belongs.
  SocketLink(int fd, QueueShape shape);

  SendEnd& send_end() { return to_socket_; }
  ReceiveEnd& receive_end() { return from_socket_; }
  int fd() const { return socket_.get(); }
  State state() const { return state_; }
  const std::string& reason() const { return reason_; }

  // Moves what can be moved now; true if any of it belonged to a message: news are no progress.
  bool pump();
  // Whether everything is with the kernel; asked by the thread that pumps.
  bool is_drained() const { return first_out_ == num_out_ && control_.empty() && out_of_queue_.peek() == nullptr; }
  bool wants_to_write() const { return !is_drained(); }
  // Whether reading could get on: not while every slot is taken, nor after the end.
  bool wants_to_read() const { return !has_ended() && !is_full_; }
  // Whether the socket shall wake whoever polls it for every packet, or only when much can be read or sent.
  void wake_rarely(bool rarely);
  // Whether nothing more can come.
  bool has_ended() const { return ended_ || state_ == State::broken; }
  // Says that nothing more follows; true when the peer's host has everything and the socket can be closed.
  bool finish();

  void ask_status();
  void tell_status(const RemoteStatus& status);
  void tell_failure(const Failure& failure);
  void tell_farewell();

  // What came since the last look.
  bool take_question() { return std::exchange(asked_, false); }
  const RemoteStatus& status() const { return status_; }
  const Failure& failure() const { return failure_; }

  void drop();  // in a forked child: close without a word

 private:
  struct Frame {
    uint32_t magic, kind, num_bytes, reserved;
    uint64_t signature;
  };
  enum Kind : uint32_t { kMessage = 1, kQuestion, kStatus, kFailure, kFarewell };

  bool pump_out();
  bool gather();
  bool send_gathered(bool& moved);
  void lose_peer(const char* reason);

  bool pump_in();
  ssize_t read_on();
  bool unpack_staged();
  bool begin_frame_in();
  void end_frame_in();
  void take_control();
  void queue_control(Kind kind, std::vector<std::byte> payload);
  void break_off(std::string reason);

  Descriptor socket_;
  QueueShape shape_;
  Mapping outgoing_, incoming_;
  SendEnd to_socket_, into_queue_;
  ReceiveEnd from_socket_, out_of_queue_;
  State state_ = State::open;
  std::string reason_;

  // The frames on their way out, handed to the kernel together: their headers, where their payloads lie, which is
  // the first that has not gone, and how much of it has.
  static constexpr size_t kMaxTogether = 8;
  std::array<Frame, kMaxTogether> out_frames_{};
  std::array<const std::byte*, kMaxTogether> out_payloads_{};
  size_t num_out_ = 0, first_out_ = 0, sent_ = 0;
  std::vector<std::byte> out_control_;
  std::deque<std::pair<Kind, std::vector<std::byte>>> control_;

  // The frame on its way in. Its header and the beginning of its payload are read together into `staged_`; the rest
  // of a payload is read straight to its place.
  static constexpr size_t kStagedBytes = 16 * 1024;
  std::vector<std::byte> staged_;
  size_t staged_begin_ = 0, staged_end_ = 0;
  Frame in_frame_{};
  std::byte* in_payload_ = nullptr;
  size_t in_missing_ = 0;    // bytes of the payload that have not come
  bool in_is_open_ = false;  // between the header of a frame and its end
  std::vector<std::byte> in_control_;
  bool moved_in_ = false, is_full_ = false;
  int least_readable_ = 1;  // bytes that make the socket readable
  bool wakes_rarely_ = false;

  bool asked_ = false, ended_ = false, finishing_ = false;
  RemoteStatus status_;
  Failure failure_;
};

}  // namespace hemiola::runtime
