#include <algorithm>
#include <unordered_map>

#include "lists.h"
#include "passes/rows.h"

// The witness. Instructions are halves of operations: an operation has a half that sends and one that
// receives (a local one has only the latter), and a fused instruction is the receiving half of one operation
// and the sending half of a later one, run as one. Connections keep the order of the operations. We run all
// instructions with `slots` slots per connection, level by level, as soon as their data and a slot allow, and
// the order of that run becomes the order of the steps: no plan made of it can deadlock, whatever its
// threadblocks, because the run itself is a way through.
//
// It cannot get stuck while anything is left: of all halves that are left, look at the earliest in the order
// of operations. Everything that it needs (its data; earlier messages of its connection, sent and received)
// lies earlier and is done, so it could run, were it not fused to a later half. So when the run stands still
// that instruction is split, and only then.
//
// A message of more than `slots` chunks does not fit the connection when every chunk takes a slot of its own.
// Such a message is never fused, and moves only when its receiver is ready as well, both in one go; then the
// order holds whether a step takes one slot or as many as it has chunks. With no slots at all, every message
// is of that kind.

namespace hemiola {
namespace {

struct Connection {
  std::vector<uint32_t> operations;
  uint32_t sent = 0, received = 0;  // operations
  uint32_t chunks = 0;              // in flight
};

class Witness {
 public:
  Witness(Instructions instructions, const Layout& layout, uint32_t num_operations, uint32_t slots)
      : rows_(instructions.begin(), instructions.end()),
        sender_(num_operations, kNone),
        receiver_(num_operations, kNone),
        connection_(num_operations, kNone),
        position_(num_operations, 0),
        pending_(2 * size_t{num_operations}, 0),
        done_(rows_.size(), 0),
        queued_(rows_.size(), 0),
        slots_(slots) {
    for (uint32_t i = 0; i < rows_.size(); ++i) index_row(i);
    connect();
    find_conflicts(layout);
  }

  std::vector<Instruction> run() {
    order_.reserve(rows_.size());
    for (uint32_t op = 0; op < sender_.size(); ++op) {
      if (sender_[op] != kNone) wake(sender_[op]);
      if (receiver_[op] != kNone) wake(receiver_[op]);
    }
    while (order_.size() < rows_.size()) {
      level_.swap(next_level_);
      next_level_.clear();
      for (uint32_t row : level_) queued_[row] = 0;
      for (uint32_t row : level_) attempt(row);
      if (next_level_.empty() && order_.size() < rows_.size()) split_earliest();
    }
    std::vector<Instruction> result;
    result.reserve(order_.size());
    for (uint32_t row : order_) result.push_back(rows_[row]);
    return result;
  }

 private:
  static uint32_t sending(uint32_t op) { return 2 * op; }
  static uint32_t receiving(uint32_t op) { return 2 * op + 1; }
  static bool receives(const Instruction& row) { return row.recv_peer != kNoPeer; }
  static bool sends(const Instruction& row) { return row.send_peer != kNoPeer; }
  bool too_long(const Instruction& row) const { return row.count > slots_; }

  void index_row(uint32_t i) {
    ENFORCE(!is_fused(rows_[i]) || !too_long(rows_[i]), "instruction ", i, " is too long to be fused");
    if (rows_[i].recv_operation != kNone) receiver_[rows_[i].recv_operation] = i;
    if (rows_[i].send_operation != kNone) sender_[rows_[i].send_operation] = i;
  }

  void connect() {
    std::unordered_map<uint64_t, std::unordered_map<int32_t, uint32_t>> known;
    for (uint32_t op = 0; op < sender_.size(); ++op) {
      if (sender_[op] == kNone) continue;
      const Instruction& row = rows_[sender_[op]];
      const uint64_t pair = uint64_t{row.rank} << 32 | static_cast<uint32_t>(row.send_peer);
      const auto [at, is_new] = known[pair].try_emplace(row.channel, static_cast<uint32_t>(connections_.size()));
      if (is_new) connections_.emplace_back();
      connection_[op] = at->second;
      position_[op] = static_cast<uint32_t>(connections_[at->second].operations.size());
      connections_[at->second].operations.push_back(op);
    }
  }

  // Edges between halves that touch the same chunk, one of them writing, in the order of operations. A fused
  // instruction sends what lies in its destination, a plain one's destination is what it sends. What rrs does
  // not store counts as stored: it would be, were it split.
  void find_conflicts(const Layout& layout) {
    const RowPieces memory(rows_, layout);
    writer_.assign(memory.size(), kNone);
    readers_ = Lists<uint32_t>(memory.size());
    last_edge_.assign(pending_.size(), kNone);
    for (uint32_t op = 0; op < sender_.size(); ++op) {
      if (sender_[op] != kNone) read(sending(op), memory.destination(rows_[sender_[op]]));
      if (receiver_[op] == kNone) continue;
      const Instruction& row = rows_[receiver_[op]];
      if (traits(row.opcode).reads_source) read(receiving(op), memory.source(row));
      write(receiving(op), memory.destination(row));
    }
    build_successors();
    writer_ = {};
    readers_ = {};
    last_edge_ = {};
    edges_ = {};
  }

  void read(uint32_t half, Range range) {
    for (uint32_t k = range.first; k < range.end; ++k) {
      add_edge(writer_[k], half);
      if (readers_.empty(k) || readers_.back(k) != half) readers_.push_back(k, half);
    }
  }

  void write(uint32_t half, Range range) {
    for (uint32_t k = range.first; k < range.end; ++k) {
      readers_.each(k, [&](uint32_t reader) { add_edge(reader, half); });
      if (readers_.empty(k)) add_edge(writer_[k], half);
      readers_.clear(k);
      writer_[k] = half;
    }
  }

  uint32_t row_of(uint32_t half) const { return half % 2 == 0 ? sender_[half / 2] : receiver_[half / 2]; }

  void add_edge(uint32_t from, uint32_t to) {
    if (from == kNone || last_edge_[from] == to || row_of(from) == row_of(to)) return;
    last_edge_[from] = to;
    edges_.emplace_back(from, to);
    ++pending_[to];
  }

  void build_successors() {
    first_successor_.assign(pending_.size() + 1, 0);
    for (const auto& [from, to] : edges_) ++first_successor_[from + 1];
    for (size_t i = 1; i < first_successor_.size(); ++i) first_successor_[i] += first_successor_[i - 1];
    successors_.resize(edges_.size());
    std::vector<uint32_t> at(first_successor_.begin(), first_successor_.end() - 1);
    for (const auto& [from, to] : edges_) successors_[at[from]++] = to;
  }

  void wake(uint32_t row) {
    if (row == kNone || done_[row] || queued_[row]) return;
    queued_[row] = 1;
    next_level_.push_back(row);
  }

  // A message that is too long moves when both its ends can; its sender decides.
  void attempt(uint32_t row) {
    const Instruction& r = rows_[row];
    if (receives(r) && too_long(r) && !is_sent(r.recv_operation)) row = sender_[r.recv_operation];
    if (!done_[row] && can_receive(row, false) && can_send(row)) execute(row);
  }

  bool is_sent(uint32_t op) const { return connections_[connection_[op]].sent > position_[op]; }

  // Whether everything but sending can be done; `message_comes` with this very move.
  bool can_receive(uint32_t row, bool message_comes) const {
    const Instruction& r = rows_[row];
    if (r.recv_operation == kNone) return true;
    if (pending_[receiving(r.recv_operation)] != 0) return false;
    if (!receives(r)) return true;
    const bool is_next = connections_[connection_[r.recv_operation]].received == position_[r.recv_operation];
    return is_next && (message_comes || is_sent(r.recv_operation));
  }

  bool can_send(uint32_t row) const {
    const Instruction& r = rows_[row];
    if (!sends(r)) return true;
    if (pending_[sending(r.send_operation)] != 0) return false;
    const Connection& c = connections_[connection_[r.send_operation]];
    if (c.sent != position_[r.send_operation]) return false;
    if (!too_long(r)) return c.chunks + r.count <= slots_;
    return c.chunks == 0 && can_receive(receiver_[r.send_operation], true);
  }

  void execute(uint32_t row) {
    const Instruction r = rows_[row];
    done_[row] = 1;
    order_.push_back(row);
    if (receives(r)) {
      Connection& c = connections_[connection_[r.recv_operation]];
      ++c.received;
      c.chunks -= r.count;
      wake_sender_at(c, c.sent);
      wake_receiver_at(c, c.received);
    }
    if (sends(r)) {
      Connection& c = connections_[connection_[r.send_operation]];
      ++c.sent;
      c.chunks += r.count;
      wake_sender_at(c, c.sent);
      wake_receiver_at(c, c.received);
    }
    if (r.recv_operation != kNone) release(receiving(r.recv_operation));
    if (r.send_operation != kNone) release(sending(r.send_operation));
    if (sends(r) && too_long(r)) execute(receiver_[r.send_operation]);
  }

  void wake_sender_at(const Connection& c, uint32_t position) {
    if (position < c.operations.size()) wake(sender_[c.operations[position]]);
  }
  void wake_receiver_at(const Connection& c, uint32_t position) {
    if (position < c.operations.size()) wake(receiver_[c.operations[position]]);
  }

  void release(uint32_t half) {
    for (uint32_t at = first_successor_[half]; at < first_successor_[half + 1]; ++at)
      if (--pending_[successors_[at]] == 0) wake(row_of(successors_[at]));
    if (half % 2 == 1 && !after_split_.empty()) {
      if (const auto at = after_split_.find(half); at != after_split_.end()) {
        if (--pending_[at->second] == 0) wake(row_of(at->second));
      }
    }
  }

  // The earliest half that is left belongs to an instruction that is fused to a later one.
  void split_earliest() {
    while (is_done(sender_[earliest_]) && is_done(receiver_[earliest_])) ++earliest_;
    const uint32_t row = receiver_[earliest_];
    ENFORCE(row != kNone && !done_[row] && is_fused(rows_[row]), "operation ", earliest_, " cannot run");
    const Instruction fused = rows_[row];
    rows_[row] = receiving_half(fused);
    const auto added = static_cast<uint32_t>(rows_.size());
    rows_.push_back(sending_half(fused));
    done_.push_back(0);
    queued_.push_back(0);
    index_row(added);
    ++pending_[sending(fused.send_operation)];
    after_split_[receiving(fused.recv_operation)] = sending(fused.send_operation);
    wake(sender_[earliest_]);
    wake(row);
  }

  bool is_done(uint32_t row) const { return row == kNone || done_[row]; }

  std::vector<Instruction> rows_;
  std::vector<uint32_t> sender_, receiver_;      // operation -> row
  std::vector<uint32_t> connection_, position_;  // operation -> connection, and its place there
  std::vector<Connection> connections_;
  std::vector<uint32_t> pending_;  // half -> conflicts that are not done yet
  std::vector<std::pair<uint32_t, uint32_t>> edges_;
  std::vector<uint32_t> first_successor_, successors_;
  std::vector<uint32_t> writer_, last_edge_;
  Lists<uint32_t> readers_;                             // of every piece, since it was written last
  std::unordered_map<uint32_t, uint32_t> after_split_;  // receiving half -> sending half that reads it
  std::vector<uint8_t> done_, queued_;
  std::vector<uint32_t> level_, next_level_, order_;
  uint32_t earliest_ = 0;
  uint32_t slots_;
};

}  // namespace

std::vector<Instruction> order_steps(Instructions instructions, const Layout& layout, uint32_t num_operations,
                                     uint32_t slots) {
  return Witness(instructions, layout, num_operations, slots).run();
}

}  // namespace hemiola
