#include <algorithm>

#include "passes/rows.h"

namespace hemiola {
namespace {

class CopyForwarder {
 public:
  CopyForwarder(const Layout& layout, const RowPieces& memory)
      : layout_(layout), memory_(memory), written_(memory.size(), 0), original_(memory.size(), kNone) {}

  void visit(Instruction& row) {
    ++now_;
    const OpcodeTraits& t = traits(row.opcode);
    if (t.reads_source) forward(row);
    if (!t.writes_destination) return;
    const Range dst = memory_.destination(row);
    const bool copies = row.opcode == Opcode::cpy;
    for (uint32_t k = dst.first; k < dst.end; ++k) {
      written_[k] = now_;
      original_[k] =
          copies ? memory_.source_chunk(row) + memory_.pieces().start(k) - memory_.destination_chunk(row) : kNone;
    }
  }

 private:
  // The source moves when all its pieces are copies of neighbours in one buffer, unchanged since.
  void forward(Instruction& row) const {
    const Range src = memory_.source(row);
    const uint32_t original = original_[src.first];
    if (original == kNone) return;
    const uint32_t begin = memory_.pieces().start(src.first);
    uint32_t oldest = kNone;
    for (uint32_t k = src.first; k < src.end; ++k) {
      if (original_[k] != original + memory_.pieces().start(k) - begin) return;
      oldest = std::min(oldest, written_[k]);
    }
    if (changed_since(original, row.count, oldest) || overlaps_destination(row, original)) return;
    for (uint8_t buffer = 0; buffer < 3; ++buffer) {
      const uint32_t base = layout_.at(row.rank, buffer, 0);
      if (original < base || original + row.count > base + layout_.chunks(row.rank, buffer)) continue;
      row.src_buffer = buffer;
      row.src_index = original - base;
      return;
    }
  }

  bool changed_since(uint32_t chunk, uint32_t count, uint32_t moment) const {
    const uint32_t last = memory_.pieces().of(chunk + count - 1);
    for (uint32_t k = memory_.pieces().of(chunk); k <= last; ++k)
      if (written_[k] > moment) return true;
    return false;
  }

  // A step's source and destination are the same chunks or have none in common.
  bool overlaps_destination(const Instruction& row, uint32_t original) const {
    if (!traits(row.opcode).writes_destination) return false;
    const uint32_t dst = memory_.destination_chunk(row);
    return original < dst + row.count && dst < original + row.count;
  }

  const Layout& layout_;
  const RowPieces& memory_;
  uint32_t now_ = 0;
  std::vector<uint32_t> written_;   // piece -> when it was written last
  std::vector<uint32_t> original_;  // piece -> the chunk that its first chunk is a copy of
};

// From the end to the beginning: a copy into chunks that nobody reads afterwards is dead.
void drop_dead_copies(std::vector<Instruction>& rows, const Layout& layout, std::span<const uint32_t> kept) {
  const RowPieces memory(rows, layout, kept);
  std::vector<uint8_t> live(memory.size(), 0);
  const auto mark = [&](Range range, uint8_t value) {
    std::fill(live.begin() + range.first, live.begin() + range.end, value);
  };
  for (size_t i = 0; i + 1 < kept.size(); i += 2) mark(memory.pieces().range(kept[i], kept[i + 1]), 1);
  size_t end = rows.size();
  for (size_t i = rows.size(); i-- > 0;) {
    const Instruction row = rows[i];
    const OpcodeTraits& t = traits(row.opcode);
    const Range dst = memory.destination(row);
    const auto is_live = [](uint8_t l) { return l != 0; };
    if (row.opcode == Opcode::cpy && std::none_of(live.begin() + dst.first, live.begin() + dst.end, is_live)) continue;
    if (t.writes_destination) mark(dst, t.reads_destination ? 1 : 0);
    if (t.reads_source) mark(memory.source(row), 1);
    rows[--end] = row;
  }
  rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(end));
}

}  // namespace

std::vector<Instruction> forward_copies(Instructions instructions, const Layout& layout,
                                        std::span<const uint32_t> kept) {
  std::vector<Instruction> rows(instructions.begin(), instructions.end());
  {
    const RowPieces memory(instructions, layout);
    CopyForwarder forwarder(layout, memory);
    for (Instruction& row : rows) forwarder.visit(row);
  }
  drop_dead_copies(rows, layout, kept);
  return rows;
}

}  // namespace hemiola
