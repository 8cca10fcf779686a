#include "proof/promises.h"

#include <algorithm>
#include <unordered_map>

namespace hemiola {
namespace {

std::vector<uint32_t> buffer_sizes(const Layout& layout) {
  std::vector<uint32_t> sizes;
  for (uint32_t rank = 0; rank < layout.num_ranks(); ++rank)
    for (uint32_t buffer = 0; buffer < 3; ++buffer) sizes.push_back(layout.chunks(rank, buffer));
  return sizes;
}

// Remembers which expression was found first for each chunk of each set, to see whether others are the same.
class Expressions {
 public:
  explicit Expressions(const Meaning& meaning) : first_(sizes(meaning)) {}

  bool same(const Promise& promise, const Segments& found) {
    first_.read(promise.set, promise.input_index, promise.count, known_);
    if (std::ranges::all_of(known_, [](const Segment& s) { return s.value == kGarbage; })) {
      first_.write(promise.set, promise.input_index, found, 0);
      return true;
    }
    return walk_both(known_, found, [](Value known, Value value, uint32_t) { return known == value; });
  }

 private:
  static std::vector<uint32_t> sizes(const Meaning& meaning) {
    std::vector<uint32_t> ends(meaning.set_first.size(), 0);
    for (const Promise& p : meaning.promised) ends[p.set] = std::max(ends[p.set], p.input_index + p.count);
    return ends;
  }

  Memory first_;
  Segments known_;
};

std::vector<AtomSets::Id> intern_sets(Values& values, const Meaning& meaning) {
  std::vector<AtomSets::Id> sets;
  for (size_t k = 0; k + 1 < meaning.set_first.size(); ++k) {
    const size_t first = meaning.set_first[k], end = meaning.set_first[k + 1];
    sets.push_back(values.promised(meaning.runs.subspan(2 * first, 2 * (end - first))));
  }
  return sets;
}

}  // namespace

State start(const Meaning& meaning, const Layout& layout) {
  State state{Values(layout.num_ranks()), Memory(buffer_sizes(layout))};
  for (const Holding& row : meaning.held)
    state.memory.write(3 * row.rank + row.buffer, row.index,
                       {{row.count, state.values.input(row.rank, row.input_index), 0}}, 0);
  return state;
}

Fulfilment check_promises(Values& values, const Reader& read, const Meaning& meaning, size_t limit) {
  constexpr size_t kListed = 3;
  Fulfilment result;
  const auto sets = intern_sets(values, meaning);
  Expressions expressions(meaning);
  Segments found;
  for (uint32_t row = 0; row < meaning.promised.size(); ++row) {
    const Promise& promise = meaning.promised[row];
    read(promise, found);
    uint32_t offset = 0;
    bool kept = true;
    for (const Segment& s : found) {
      kept = values.sum_of(s.value) == Values::Sum{sets[promise.set], promise.input_index + offset};
      if (!kept) {
        if (result.broken.size() < limit)
          result.broken.push_back({row, offset, s.value == kGarbage,
                                   result.broken.size() < kListed ? values.contributions(s.value) : std::nullopt});
        break;
      }
      offset += s.count;
    }
    if (kept && result.same_expression) result.same_expression = expressions.same(promise, found);
  }
  return result;
}

Fulfilment check_promises(State& state, const Meaning& meaning, size_t limit) {
  const Reader read = [&](const Promise& promise, Segments& found) {
    state.memory.read(3 * promise.rank + promise.buffer, promise.index, promise.count, found);
  };
  return check_promises(state.values, read, meaning, limit);
}

SequentialRun run_operations(std::span<const Operation> rows, const Meaning& meaning, const Layout& layout) {
  SequentialRun run{kNone, start(meaning, layout)};
  auto& [values, memory] = run.state;
  Segments source, target, sums;
  for (const Operation& op : rows) {
    memory.read(3 * op.src_rank + op.src_buffer, op.src_index, op.count, source);
    if (static_cast<Kind>(op.kind) == Kind::reduce) {
      memory.read(3 * op.dst_rank + op.dst_buffer, op.dst_index, op.count, target);
      add_ranges(values, target, source, sums);
      source.swap(sums);
    }
    memory.write(3 * op.dst_rank + op.dst_buffer, op.dst_index, source, 0);
  }
  return run;
}

SequentialRun run_instructions(std::span<const Instruction> rows, uint32_t num_operations, const Meaning& meaning,
                               const Layout& layout) {
  SequentialRun run{kNone, start(meaning, layout)};
  auto& [values, memory] = run.state;
  struct Message {
    uint32_t count;
    Segments contents;
  };
  std::unordered_map<uint32_t, Message> messages;
  Segments moved, other, sums;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const Instruction& row = rows[i];
    const OpcodeTraits& t = traits(row.opcode);
    if (t.reads_source) memory.read(3 * row.rank + row.src_buffer, row.src_index, row.count, moved);
    if (t.receives) {
      const auto message = messages.find(row.recv_operation);
      if (row.recv_operation >= num_operations || message == messages.end() || message->second.count != row.count) {
        run.stuck = i;
        return run;
      }
      other = std::move(message->second.contents);
      messages.erase(message);
    }
    if (t.reads_destination) memory.read(3 * row.rank + row.dst_buffer, row.dst_index, row.count, other);
    combine(values, t, moved, other, sums);
    if (t.writes_destination) memory.write(3 * row.rank + row.dst_buffer, row.dst_index, moved, 0);
    if (t.sends) messages[row.send_operation] = {row.count, moved};
  }
  return run;
}

}  // namespace hemiola
