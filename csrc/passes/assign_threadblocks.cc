#include <algorithm>
#include <map>
#include <unordered_map>

#include "passes/rows.h"

namespace hemiola {
namespace {

struct Block {
  int32_t channel = kAutomatic, recv_peer = kNoPeer, send_peer = kNoPeer;
  uint32_t line = 0;
};

// The threadblocks of one rank while they are made.
struct RankBlocks {
  std::vector<Block> made;                                          // automatic ones
  std::map<int32_t, Block> by_hand;                                 // number given by the user -> what it became
  std::map<std::pair<int32_t, int32_t>, int32_t> sender, receiver;  // (channel, peer) -> number
  std::map<int32_t, int32_t> local;                                 // channel -> number
};

class Assigner {
 public:
  Assigner(std::vector<Instruction>& rows, const Layout& layout, bool merge)
      : rows_(rows), memory_(rows, layout), ranks_(layout.num_ranks()), writer_(memory_.size(), kNone), merge_(merge) {}

  void run() {
    place_by_hand();
    if (conflict.rank != kNone) return;
    for (const Instruction& row : rows_)
      if (row.threadblock == kAutomatic && is_fused(row)) place_fused(row);
    for (const Instruction& row : rows_)
      if (row.threadblock == kAutomatic) place_connection(row);
    for (uint32_t i = 0; i < rows_.size(); ++i) give(i);
    renumber();
  }

  ThreadblockConflict conflict;
  uint32_t most = 0, most_per_channel = 0;

 private:
  static constexpr int32_t kMade = 1 << 24;  // automatic threadblocks are numbered from here on

  void refuse(const Instruction& row, uint32_t other_line, const char* what) {
    if (conflict.rank == kNone) conflict = {row.rank, row.threadblock, row.line, other_line, what};
  }

  // Takes what the user wrote; a threadblock has one channel and one peer on each side, a connection one
  // threadblock on each side.
  void place_by_hand() {
    for (const Instruction& row : rows_) {
      if (row.threadblock == kAutomatic) continue;
      RankBlocks& rank = ranks_[row.rank];
      auto [at, is_new] =
          rank.by_hand.try_emplace(row.threadblock, Block{row.channel, row.recv_peer, row.send_peer, row.line});
      Block& block = at->second;
      if (block.channel != row.channel && (row.send_peer != kNoPeer || row.recv_peer != kNoPeer)) {
        if (block.recv_peer != kNoPeer || block.send_peer != kNoPeer) return refuse(row, block.line, "two channels");
        block.channel = row.channel;
      }
      if (!take_peer(rank.receiver, row, row.recv_peer, block.recv_peer, block.line, "two peers to receive from",
                     "a connection that another threadblock receives from"))
        return;
      if (!take_peer(rank.sender, row, row.send_peer, block.send_peer, block.line, "two peers to send to",
                     "a connection that another threadblock sends to"))
        return;
    }
  }

  bool take_peer(std::map<std::pair<int32_t, int32_t>, int32_t>& owners, const Instruction& row, int32_t peer,
                 int32_t& of_block, uint32_t other_line, const char* two_peers, const char* two_blocks) {
    if (peer == kNoPeer) return true;
    if (of_block != kNoPeer && of_block != peer) return refuse(row, other_line, two_peers), false;
    of_block = peer;
    const auto [at, is_new] = owners.try_emplace({row.channel, peer}, row.threadblock);
    if (at->second != row.threadblock) return refuse(row, other_line, two_blocks), false;
    return true;
  }

  int32_t make(RankBlocks& rank, int32_t channel, int32_t recv_peer, int32_t send_peer) {
    rank.made.push_back({channel, recv_peer, send_peer, 0});
    return kMade + static_cast<int32_t>(rank.made.size()) - 1;
  }

  void place_fused(const Instruction& row) {
    RankBlocks& rank = ranks_[row.rank];
    if (rank.receiver.contains({row.channel, row.recv_peer})) return;
    const int32_t number = make(rank, row.channel, row.recv_peer, row.send_peer);
    rank.receiver[{row.channel, row.recv_peer}] = number;
    rank.sender[{row.channel, row.send_peer}] = number;
  }

  void place_connection(const Instruction& row) {
    RankBlocks& rank = ranks_[row.rank];
    if (row.recv_peer != kNoPeer && !rank.receiver.contains({row.channel, row.recv_peer}))
      rank.receiver[{row.channel, row.recv_peer}] = join_or_make(rank, row.channel, row.recv_peer, kNoPeer);
    if (row.send_peer != kNoPeer && !rank.sender.contains({row.channel, row.send_peer}))
      rank.sender[{row.channel, row.send_peer}] = join_or_make(rank, row.channel, kNoPeer, row.send_peer);
  }

  int32_t join_or_make(RankBlocks& rank, int32_t channel, int32_t recv_peer, int32_t send_peer) {
    for (size_t i = 0; merge_ && i < rank.made.size(); ++i) {
      Block& block = rank.made[i];
      if (block.channel != channel || (recv_peer != kNoPeer ? block.recv_peer : block.send_peer) != kNoPeer) continue;
      (recv_peer != kNoPeer ? block.recv_peer : block.send_peer) = recv_peer != kNoPeer ? recv_peer : send_peer;
      return kMade + static_cast<int32_t>(i);
    }
    return make(rank, channel, recv_peer, send_peer);
  }

  // A local instruction goes where its data was made: for a sum, with the sum so far, otherwise with
  // what it reads. Data that was there from the start is handled by a threadblock without peers.
  void give(uint32_t i) {
    Instruction& row = rows_[i];
    RankBlocks& rank = ranks_[row.rank];
    const OpcodeTraits& t = traits(row.opcode);
    const Range dst = memory_.destination(row);
    if (row.threadblock == kAutomatic) {
      if (row.recv_peer != kNoPeer) {
        row.threadblock = rank.receiver.at({row.channel, row.recv_peer});
      } else if (row.send_peer != kNoPeer) {
        row.threadblock = rank.sender.at({row.channel, row.send_peer});
      } else {
        row.threadblock = place_local(row, rank, dst.first);
      }
    }
    if (t.writes_destination) std::fill(writer_.begin() + dst.first, writer_.begin() + dst.end, i);
  }

  int32_t place_local(const Instruction& row, RankBlocks& rank, uint32_t dst) {
    const uint32_t src = memory_.source(row).first;
    const bool sum_so_far = row.opcode == Opcode::re && writer_[dst] != kNone && is_local(rows_[writer_[dst]]);
    const uint32_t maker = sum_so_far ? writer_[dst] : writer_[src];
    if (maker != kNone && rows_[maker].instance == row.instance) return rows_[maker].threadblock;
    const auto [at, is_new] = rank.local.try_emplace(row.channel, 0);
    if (is_new) at->second = make(rank, row.channel, kNoPeer, kNoPeer);
    return at->second;
  }

  static bool is_local(const Instruction& row) { return row.recv_peer == kNoPeer && row.send_peer == kNoPeer; }

  // Numbers from 0 without gaps: the user's first, in the user's order, then ours by channel. Every row of
  // a threadblock gets the threadblock's channel.
  void renumber() {
    std::vector<std::unordered_map<int32_t, int32_t>> numbers(ranks_.size());
    for (size_t r = 0; r < ranks_.size(); ++r) {
      int32_t next = 0;
      std::map<int32_t, uint32_t> per_channel;
      for (const auto& [given, block] : ranks_[r].by_hand) {
        numbers[r][given] = next++;
        ++per_channel[block.channel];
      }
      std::vector<int32_t> order(ranks_[r].made.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
      std::ranges::stable_sort(order, {}, [&](int32_t i) { return ranks_[r].made[static_cast<size_t>(i)].channel; });
      for (int32_t i : order) {
        numbers[r][kMade + i] = next++;
        ++per_channel[ranks_[r].made[static_cast<size_t>(i)].channel];
      }
      most = std::max(most, static_cast<uint32_t>(next));
      for (const auto& [channel, count] : per_channel) most_per_channel = std::max(most_per_channel, count);
    }
    for (Instruction& row : rows_) {
      const RankBlocks& rank = ranks_[row.rank];
      row.channel = row.threadblock >= kMade ? rank.made[static_cast<size_t>(row.threadblock - kMade)].channel
                                             : rank.by_hand.at(row.threadblock).channel;
      row.threadblock = numbers[row.rank].at(row.threadblock);
    }
  }

  std::vector<Instruction>& rows_;
  const RowPieces memory_;
  std::vector<RankBlocks> ranks_;
  std::vector<uint32_t> writer_;
  bool merge_;
};

}  // namespace

Threadblocks assign_threadblocks(Instructions instructions, const Layout& layout, bool merge) {
  Threadblocks result;
  result.instructions.assign(instructions.begin(), instructions.end());
  Assigner assigner(result.instructions, layout, merge);
  assigner.run();
  result.conflict = assigner.conflict;
  result.most = assigner.most;
  result.most_per_channel = assigner.most_per_channel;
  return result;
}

}  // namespace hemiola
