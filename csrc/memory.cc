#include "memory.h"

#include <algorithm>

#include "enforce.h"

namespace hemiola {

void append(Segments& segments, Segment segment) {
  if (!segments.empty() && segments.back().goes_on_as(segment)) {
    segments.back().count += segment.count;
  } else {
    segments.push_back(segment);
  }
}

void add_ranges(Values& values, const Segments& a, const Segments& b, Segments& sums) {
  sums.clear();
  walk_both(a, b, [&](Value x, Value y, uint32_t count) {
    append(sums, {count, values.add(x, y), 0});
    return true;
  });
}

Memory::Memory(std::span<const uint32_t> sizes) : sizes_(sizes.begin(), sizes.end()), buffers_(sizes.size()) {
  for (size_t buffer = 0; buffer < sizes_.size(); ++buffer)
    if (sizes_[buffer] > 0) buffers_[buffer] = {{{0, kGarbage, 0}}};
}

size_t Memory::add_buffer() {
  sizes_.push_back(0);
  buffers_.emplace_back();
  return buffers_.size() - 1;
}

void Memory::resize(size_t buffer, uint32_t size) {
  if (size <= sizes_[buffer]) return;
  auto& blocks = buffers_[buffer];
  const bool open = !blocks.empty() && blocks.back().back().value == kGarbage && blocks.back().back().written_at == 0;
  if (blocks.empty() || (!open && blocks.back().size() >= kLongestBlock)) blocks.emplace_back();
  if (!open) blocks.back().push_back({sizes_[buffer], kGarbage, 0});
  sizes_[buffer] = size;
}

Memory::Position Memory::find(const std::vector<Block>& blocks, uint32_t chunk) const {
  const auto block = std::upper_bound(blocks.begin(), blocks.end(), chunk,
                                      [](uint32_t c, const Block& b) { return c < b.front().first; }) -
                     1;
  const auto entry =
      std::upper_bound(block->begin(), block->end(), chunk, [](uint32_t c, const Stored& s) { return c < s.first; }) -
      1;
  return {static_cast<size_t>(block - blocks.begin()), static_cast<size_t>(entry - block->begin())};
}

Memory::Position Memory::next(const std::vector<Block>& blocks, Position at) {
  return at.entry + 1 < blocks[at.block].size() ? Position{at.block, at.entry + 1} : Position{at.block + 1, 0};
}

void Memory::read(size_t buffer, uint32_t first, uint32_t count, Segments& found) const {
  found.clear();
  const auto& blocks = buffers_[buffer];
  const uint32_t end = first + count;
  ENFORCE(count > 0 && end <= sizes_[buffer], "chunks ", first, " to ", end, " of ", sizes_[buffer]);
  for (Position at = find(blocks, first); at.block < blocks.size();) {
    const Stored& stored = blocks[at.block][at.entry];
    if (stored.first >= end) break;
    at = next(blocks, at);
    const uint32_t from = std::max(first, stored.first);
    const uint32_t to = at.block < blocks.size() ? std::min(end, blocks[at.block][at.entry].first) : end;
    found.push_back({to - from, stored.at(from), stored.written_at});
  }
}

void Memory::write(size_t buffer, uint32_t first, const Segments& contents, uint32_t written_at) {
  auto& blocks = buffers_[buffer];
  uint32_t end = first;
  for (const Segment& s : contents) end += s.count;
  ENFORCE(end <= sizes_[buffer]);
  // What is left of the entries at both ends and the new ones in between, joined where they go on.
  fresh_.clear();
  const auto push = [&](uint32_t at, Value value, uint32_t moment) {
    if (!fresh_.empty() && fresh_.back().written_at == moment && fresh_.back().at(at) == value) return;
    fresh_.push_back({at, value, moment});
  };
  Position from = find(blocks, first);
  if (blocks[from.block][from.entry].first == first && from.entry > 0) --from.entry;
  const Stored& before = blocks[from.block][from.entry];
  if (before.first < first) push(before.first, before.value, before.written_at);
  uint32_t at = first;
  for (const Segment& s : contents) {
    push(at, s.value, written_at);
    at += s.count;
  }
  // The entries up to the last one that is overwritten go anyway, so they are walked over.
  Position last = from, stop = next(blocks, last);
  while (stop.block < blocks.size() && blocks[stop.block][stop.entry].first < end) {
    last = stop;
    stop = next(blocks, stop);
  }
  const uint32_t last_end = stop.block < blocks.size() ? blocks[stop.block][stop.entry].first : sizes_[buffer];
  if (end < last_end) {
    push(end, blocks[last.block][last.entry].at(end), blocks[last.block][last.entry].written_at);
  } else if (stop.block == last.block && stop.block < blocks.size()) {
    const Stored& after = blocks[stop.block][stop.entry];
    push(after.first, after.value, after.written_at);
    stop = next(blocks, stop);
  }
  replace(blocks, from, stop);
}

// Puts fresh_ in place of the entries from `from` up to `stop`.
void Memory::replace(std::vector<Block>& blocks, Position from, Position stop) {
  if (stop.block > from.block) {  // keep what follows in the last block, drop the rest
    Block& head = blocks[from.block];
    head.resize(from.entry);
    head.insert(head.end(), fresh_.begin(), fresh_.end());
    if (stop.entry > 0) {
      Block& tail = blocks[stop.block];
      tail.erase(tail.begin(), tail.begin() + static_cast<std::ptrdiff_t>(stop.entry));
    }
    const auto middle = blocks.begin() + static_cast<std::ptrdiff_t>(from.block) + 1;
    blocks.erase(middle, blocks.begin() + static_cast<std::ptrdiff_t>(stop.block));
  } else {
    Block& block = blocks[from.block];
    const size_t common = std::min(stop.entry - from.entry, fresh_.size());
    const auto begin = block.begin() + static_cast<std::ptrdiff_t>(from.entry);
    std::copy_n(fresh_.begin(), common, begin);
    const auto rest = begin + static_cast<std::ptrdiff_t>(common);
    if (fresh_.size() > common) {
      block.insert(rest, fresh_.begin() + static_cast<std::ptrdiff_t>(common), fresh_.end());
    } else {
      block.erase(rest, block.begin() + static_cast<std::ptrdiff_t>(stop.entry));
    }
  }
  while (blocks[from.block].size() > kLongestBlock) {
    Block& block = blocks[from.block];
    const auto half = block.end() - static_cast<std::ptrdiff_t>(kLongestBlock / 2);
    Block upper(half, block.end());
    block.erase(half, block.end());
    blocks.insert(blocks.begin() + static_cast<std::ptrdiff_t>(from.block) + 1, std::move(upper));
  }
}

}  // namespace hemiola
