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
  size_t i = 0, j = 0;
  uint32_t in_a = 0, in_b = 0;  // chunks of a[i] and b[j] that are done
  while (i < a.size()) {
    const uint32_t count = std::min(a[i].count - in_a, b[j].count - in_b);
    append(sums, {count, values.add(a[i].at(in_a), b[j].at(in_b)), 0});
    in_a += count;
    in_b += count;
    if (in_a == a[i].count) ++i, in_a = 0;
    if (in_b == b[j].count) ++j, in_b = 0;
  }
}

Memory::Memory(std::span<const uint32_t> sizes) : sizes_(sizes.begin(), sizes.end()), buffers_(sizes.size()) {
  for (size_t buffer = 0; buffer < sizes_.size(); ++buffer)
    if (sizes_[buffer] > 0) buffers_[buffer].push_back({0, kGarbage, 0});
}

size_t Memory::add_buffer() {
  sizes_.push_back(0);
  buffers_.emplace_back();
  return buffers_.size() - 1;
}

void Memory::resize(size_t buffer, uint32_t size) {
  if (size <= sizes_[buffer]) return;
  auto& runs = buffers_[buffer];
  const bool open = !runs.empty() && runs.back().value == kGarbage && runs.back().written_at == 0;
  if (!open) runs.push_back({sizes_[buffer], kGarbage, 0});
  sizes_[buffer] = size;
}

size_t Memory::find(const std::vector<Run>& runs, uint32_t chunk) const {
  const auto after = std::upper_bound(runs.begin(), runs.end(), chunk, [](uint32_t c, const Run& r) { return c < r.first; });
  return static_cast<size_t>(after - runs.begin()) - 1;
}

void Memory::read(size_t buffer, uint32_t first, uint32_t count, Segments& found) const {
  found.clear();
  const auto& runs = buffers_[buffer];
  const uint32_t end = first + count;
  ENFORCE(count > 0 && end <= sizes_[buffer], "chunks ", first, " to ", end, " of ", sizes_[buffer]);
  for (size_t i = find(runs, first); i < runs.size() && runs[i].first < end; ++i) {
    const uint32_t next = i + 1 < runs.size() ? runs[i + 1].first : sizes_[buffer];
    const uint32_t from = std::max(first, runs[i].first), to = std::min(end, next);
    const Segment whole{next - runs[i].first, runs[i].value, runs[i].written_at};
    found.push_back({to - from, whole.at(from - runs[i].first), runs[i].written_at});
  }
}

void Memory::write(size_t buffer, uint32_t first, const Segments& contents, uint32_t written_at) {
  auto& runs = buffers_[buffer];
  uint32_t end = first;
  for (const Segment& s : contents) end += s.count;
  ENFORCE(end <= sizes_[buffer]);
  const size_t begin = find(runs, first);
  size_t stop = begin + 1;
  while (stop < runs.size() && runs[stop].first < end) ++stop;
  const uint32_t last_end = stop < runs.size() ? runs[stop].first : sizes_[buffer];
  const auto value_at = [&](const Run& run, uint32_t chunk) {
    return Segment{1, run.value, 0}.at(chunk - run.first);
  };
  // What is left of the runs at both ends, and the new ones in between, joined where they go on.
  fresh_.clear();
  const auto push = [&](uint32_t at, Value value, uint32_t moment) {
    if (!fresh_.empty() && fresh_.back().written_at == moment && value_at(fresh_.back(), at) == value) return;
    fresh_.push_back({at, value, moment});
  };
  const size_t from = begin > 0 && runs[begin].first == first ? begin - 1 : begin;
  if (runs[from].first < first) push(runs[from].first, runs[from].value, runs[from].written_at);
  uint32_t at = first;
  for (const Segment& s : contents) {
    push(at, s.value, written_at);
    at += s.count;
  }
  if (end < last_end) {
    push(end, value_at(runs[stop - 1], end), runs[stop - 1].written_at);
  } else if (stop < runs.size()) {
    push(runs[stop].first, runs[stop].value, runs[stop].written_at);
    ++stop;
  }
  const size_t replaced = stop - from;
  const size_t common = std::min(replaced, fresh_.size());
  std::copy_n(fresh_.begin(), common, runs.begin() + static_cast<std::ptrdiff_t>(from));
  const auto rest = runs.begin() + static_cast<std::ptrdiff_t>(from + common);
  if (fresh_.size() > common) {
    runs.insert(rest, fresh_.begin() + static_cast<std::ptrdiff_t>(common), fresh_.end());
  } else {
    runs.erase(rest, rest + static_cast<std::ptrdiff_t>(replaced - common));
  }
}

}  // namespace hemiola
