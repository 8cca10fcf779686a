#include <algorithm>
#include <unordered_map>

#include "lists.h"
#include "passes/rows.h"

namespace hemiola {
namespace {

class DependencyFinder {
 public:
  DependencyFinder(Instructions rows, const Layout& layout)
      : rows_(rows), memory_(rows, layout), writer_(memory_.size(), kNone), readers_(memory_.size()) {}

  // Rows that `i` conflicts with, of other threadblocks of its rank; of each threadblock the last.
  const std::vector<uint32_t>& visit(uint32_t i) {
    found_.clear();
    const Instruction& row = rows_[i];
    const OpcodeTraits& t = traits(row.opcode);
    if (t.reads_source) read(i, memory_.source(row));
    if (t.reads_destination) read(i, memory_.destination(row));
    if (t.writes_destination) write(i, memory_.destination(row));
    keep_last_of_each_threadblock();
    return found_;
  }

 private:
  void wait_for(uint32_t i, uint32_t other) {
    if (other == kNone || other == i || rows_[other].threadblock == rows_[i].threadblock) return;
    if (found_.empty() || found_.back() != other) found_.push_back(other);
  }

  void read(uint32_t i, Range range) {
    for (uint32_t k = range.first; k < range.end; ++k) {
      wait_for(i, writer_[k]);
      if (readers_.empty(k) || readers_.back(k) != i) readers_.push_back(k, i);
    }
  }

  void write(uint32_t i, Range range) {
    for (uint32_t k = range.first; k < range.end; ++k) {
      readers_.each(k, [&](uint32_t reader) { wait_for(i, reader); });
      wait_for(i, writer_[k]);
      readers_.clear(k);
      writer_[k] = i;
    }
  }

  void keep_last_of_each_threadblock() {
    const auto by_block = [&](uint32_t a, uint32_t b) {
      return std::pair(rows_[a].threadblock, b) < std::pair(rows_[b].threadblock, a);
    };
    std::ranges::sort(found_, by_block);
    const auto same = [&](uint32_t a, uint32_t b) { return rows_[a].threadblock == rows_[b].threadblock; };
    found_.erase(std::unique(found_.begin(), found_.end(), same), found_.end());
  }

  Instructions rows_;
  const RowPieces memory_;
  std::vector<uint32_t> writer_, found_;
  Lists<uint32_t> readers_;  // of every piece, since it was written last
};

}  // namespace

Waits insert_dependencies(Instructions instructions, const Layout& layout) {
  DependencyFinder finder(instructions, layout);
  Waits waits;
  waits.first.reserve(instructions.size() + 1);
  waits.first.push_back(0);
  for (uint32_t i = 0; i < instructions.size(); ++i) {
    const auto& found = finder.visit(i);
    waits.on.insert(waits.on.end(), found.begin(), found.end());
    waits.first.push_back(static_cast<uint32_t>(waits.on.size()));
  }
  return waits;
}

}  // namespace hemiola
