#include <algorithm>

#include "passes/passes.h"

namespace hemiola {
namespace {

class CopyForwarder {
 public:
  explicit CopyForwarder(const Layout& layout)
      : layout_(layout), version_(layout.size(), 0), original_(layout.size(), kNone), original_version_(layout.size(), 0) {}

  void visit(Instruction& row) {
    const OpcodeTraits& t = traits(row.opcode);
    if (t.reads_source) forward(row);
    if (!t.writes_destination) return;
    const uint32_t dst = layout_.at(row.rank, row.dst_buffer, row.dst_index);
    const uint32_t src = layout_.at(row.rank, row.src_buffer, row.src_index);
    for (uint32_t k = 0; k < row.count; ++k) {
      ++version_[dst + k];
      const bool copied = row.opcode == Opcode::cpy;
      original_[dst + k] = copied ? src + k : kNone;
      if (copied) original_version_[dst + k] = version_[src + k];
    }
  }

 private:
  // The source moves when all its chunks are unchanged copies of neighbours in one buffer.
  void forward(Instruction& row) const {
    const uint32_t src = layout_.at(row.rank, row.src_buffer, row.src_index);
    const uint32_t original = original_[src];
    if (original == kNone) return;
    for (uint32_t k = 0; k < row.count; ++k)
      if (original_[src + k] != original + k || version_[original + k] != original_version_[src + k]) return;
    for (uint8_t buffer = 0; buffer < 3; ++buffer) {
      const uint32_t base = layout_.at(row.rank, buffer, 0);
      if (original < base || original + row.count > base + layout_.chunks(row.rank, buffer)) continue;
      if (overlaps_destination(row, original)) return;
      row.src_buffer = buffer;
      row.src_index = original - base;
      return;
    }
  }

  // A step's source and destination are the same chunks or have none in common.
  bool overlaps_destination(const Instruction& row, uint32_t original) const {
    if (!traits(row.opcode).writes_destination) return false;
    const uint32_t dst = layout_.at(row.rank, row.dst_buffer, row.dst_index);
    return original < dst + row.count && dst < original + row.count;
  }

  const Layout& layout_;
  std::vector<uint32_t> version_, original_, original_version_;
};

// From the end to the beginning: a copy into chunks that nobody reads afterwards is dead.
void drop_dead_copies(std::vector<Instruction>& rows, const Layout& layout, std::span<const uint32_t> kept) {
  std::vector<uint8_t> live(layout.size(), 0);
  for (uint32_t chunk : kept) live[chunk] = 1;
  size_t end = rows.size();
  for (size_t i = rows.size(); i-- > 0;) {
    const Instruction& row = rows[i];
    const OpcodeTraits& t = traits(row.opcode);
    uint8_t* dst = live.data() + layout.at(row.rank, row.dst_buffer, row.dst_index);
    uint8_t* src = live.data() + layout.at(row.rank, row.src_buffer, row.src_index);
    if (row.opcode == Opcode::cpy && std::none_of(dst, dst + row.count, [](uint8_t l) { return l != 0; })) continue;
    if (t.writes_destination) std::fill_n(dst, row.count, t.reads_destination ? 1 : 0);
    if (t.reads_source) std::fill_n(src, row.count, 1);
    rows[--end] = row;
  }
  rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(end));
}

}  // namespace

std::vector<Instruction> forward_copies(Instructions instructions, const Layout& layout,
                                        std::span<const uint32_t> kept) {
  std::vector<Instruction> rows(instructions.begin(), instructions.end());
  CopyForwarder forwarder(layout);
  for (Instruction& row : rows) forwarder.visit(row);
  drop_dead_copies(rows, layout, kept);
  return rows;
}

}  // namespace hemiola
