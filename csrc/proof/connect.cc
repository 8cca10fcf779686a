#include <map>
#include <tuple>

#include "proof/proof.h"

namespace hemiola {
namespace {

using Key = std::tuple<uint32_t, uint32_t, uint32_t>;  // source, destination, channel

std::vector<uint32_t> steps_that(const PlacedPlan& plan, uint32_t block, bool OpcodeTraits::* acts) {
  std::vector<uint32_t> found;
  for (uint32_t step = plan.threadblocks[block].first_step; step < plan.end_of_block(block); ++step)
    if (traits(plan.steps[step].opcode).*acts) found.push_back(step);
  return found;
}

class Connector {
 public:
  explicit Connector(const PlacedPlan& plan) : plan_(plan) {
    result_.sending.assign(plan.threadblocks.size(), kNone);
    result_.receiving.assign(plan.threadblocks.size(), kNone);
    result_.matching_send.assign(plan.steps.size(), kNone);
  }

  Connections run() {
    for (uint32_t block = 0; block < plan_.threadblocks.size(); ++block) {
      const Threadblock& b = plan_.threadblocks[block];
      if (b.send_peer != kNoPeer)
        result_.sending[block] = take({b.rank, static_cast<uint32_t>(b.send_peer), b.channel}, block, result_.sender,
                                      ConnectionFaultKind::two_senders);
      if (b.recv_peer != kNoPeer)
        result_.receiving[block] = take({static_cast<uint32_t>(b.recv_peer), b.rank, b.channel}, block,
                                        result_.receiver, ConnectionFaultKind::two_receivers);
    }
    for (uint32_t connection = 0; connection < result_.sender.size(); ++connection) match(connection);
    return std::move(result_);
  }

 private:
  uint32_t take(Key key, uint32_t block, std::vector<uint32_t>& owner, ConnectionFaultKind two) {
    const auto [at, is_new] = known_.try_emplace(key, static_cast<uint32_t>(result_.sender.size()));
    if (is_new) {
      result_.sender.push_back(kNone);
      result_.receiver.push_back(kNone);
    }
    if (owner[at->second] != kNone) {
      result_.faults.push_back({two, block, owner[at->second], kNone, kNone});
    } else {
      owner[at->second] = block;
    }
    return at->second;
  }

  // The k-th message sent is the k-th received, and both steps must move as many chunks.
  void match(uint32_t connection) {
    const uint32_t sender = result_.sender[connection], receiver = result_.receiver[connection];
    const auto sends = sender == kNone ? std::vector<uint32_t>{} : steps_that(plan_, sender, &OpcodeTraits::sends);
    const auto receives =
        receiver == kNone ? std::vector<uint32_t>{} : steps_that(plan_, receiver, &OpcodeTraits::receives);
    const size_t both = std::min(sends.size(), receives.size());
    for (size_t k = 0; k < both; ++k) {
      result_.matching_send[receives[k]] = sends[k];
      if (plan_.steps[sends[k]].count == plan_.steps[receives[k]].count) continue;
      return fault(ConnectionFaultKind::counts, sender, receiver, sends[k], receives[k]);
    }
    if (sends.size() > both) fault(ConnectionFaultKind::more_sent, sender, receiver, sends[both], kNone);
    if (receives.size() > both) fault(ConnectionFaultKind::more_received, sender, receiver, kNone, receives[both]);
  }

  void fault(ConnectionFaultKind kind, uint32_t sender, uint32_t receiver, uint32_t send, uint32_t receive) {
    result_.faults.push_back({kind, sender, receiver, send, receive});
  }

  const PlacedPlan& plan_;
  Connections result_;
  std::map<Key, uint32_t> known_;
};

}  // namespace

Connections connect(const PlacedPlan& plan) { return Connector(plan).run(); }

}  // namespace hemiola
