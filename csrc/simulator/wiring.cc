#include <algorithm>
#include <tuple>

#include "simulator/scene.h"

namespace hemiola::simulator {

namespace {

struct End {
  uint32_t job, src, dst, channel, block;
  auto key() const { return std::tie(job, src, dst, channel); }
};

}  // namespace

Work work_of(const Step& step) {
  switch (step.opcode) {
    case Opcode::nop:
      return Work::none;
    case Opcode::rrs:
    case Opcode::rrc:
    case Opcode::rrcs:
    case Opcode::re:
      return Work::add;
    case Opcode::cpy:
      return step.src_buffer == step.dst_buffer && step.src_index == step.dst_index ? Work::none : Work::copy;
    default:
      return Work::copy;
  }
}

Wiring Wiring::of(std::span<const Job> jobs) {
  Wiring wiring;
  std::vector<End> sends, receives;
  uint32_t first = 0;
  for (uint32_t job = 0; job < jobs.size(); ++job) {
    const PlanView& plan = jobs[job].plan;
    for (uint32_t row = 0; row < plan.threadblocks.size(); ++row) {
      const Threadblock& b = plan.threadblocks[row];
      const uint32_t end = plan.end_of_block(row);
      Block block{job, row, b.rank, first + plan.ranks[b.rank].first_threadblock, b.first_step, end - b.first_step};
      for (uint32_t k = b.first_step; k < end; ++k) {
        const OpcodeTraits& acts = traits(plan.steps[k].opcode);
        block.sends |= acts.sends;
        block.receives |= acts.receives;
        const Work work = work_of(plan.steps[k]);
        block.sends_sums |= acts.sends && work == Work::add;
        block.takes |= acts.receives && work == Work::copy;
        block.takes_sums |= acts.receives && work == Work::add;
        block.adds |= work == Work::add;
        block.copies |= work == Work::copy;
      }
      const auto number = static_cast<uint32_t>(wiring.blocks.size());
      if (block.sends) sends.push_back({job, b.rank, static_cast<uint32_t>(b.send_peer), b.channel, number});
      if (block.receives) receives.push_back({job, static_cast<uint32_t>(b.recv_peer), b.rank, b.channel, number});
      wiring.blocks.push_back(block);
    }
    first += static_cast<uint32_t>(plan.threadblocks.size());
  }
  wiring.receiver.assign(wiring.blocks.size(), kNone);
  wiring.sender.assign(wiring.blocks.size(), kNone);
  const auto before = [](const End& a, const End& b) { return a.key() < b.key(); };
  std::sort(sends.begin(), sends.end(), before);
  std::sort(receives.begin(), receives.end(), before);
  for (size_t s = 0, r = 0; s < sends.size() && r < receives.size();) {
    if (sends[s].key() < receives[r].key()) {
      ++s;
    } else if (receives[r].key() < sends[s].key()) {
      ++r;
    } else {
      wiring.receiver[sends[s].block] = receives[r].block;
      wiring.sender[receives[r].block] = sends[s].block;
      ++s, ++r;
    }
  }
  return wiring;
}

}  // namespace hemiola::simulator
