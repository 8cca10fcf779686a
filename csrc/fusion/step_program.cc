#include "fusion/step_program.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "enforce.h"

namespace hemiola::fusion {

namespace {

// A part of a split bucket on its way back, and the first group that reads a parameter of it.
struct Gather {
  int32_t bucket, part, first_read;
  double bytes;
};

class Builder {
 public:
  Builder(const StepCosts& costs, const std::vector<double>& gradient_bytes, const Groups& groups,
          const Buckets& buckets)
      : costs_(costs), bytes_(gradient_bytes), groups_(groups), buckets_(buckets) {
    const size_t num_groups = groups.seconds.size();
    work_.assign(groups.seconds.begin(), groups.seconds.end());
    releases_.assign(num_groups, 0);
    waits_.assign(num_groups, kNone);
    bucket_bytes_.resize(buckets.size());
    ready_.resize(buckets.size());
  }

  StepProgram build(bool whole) {
    for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) measure(bucket);
    for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) send(static_cast<int32_t>(bucket));
    const size_t num_sent = program_.messages.size();
    gather();
    add_groups(whole);
    for (size_t message = 0; message < num_sent; ++message)
      program_.messages[message].release = task_of_group_[static_cast<size_t>(ready_[bucket_of(message)])];
    add_optimizers(num_sent);
    return std::move(program_);
  }

 private:
  size_t bucket_of(size_t message) const { return static_cast<size_t>(program_.messages[message].bucket); }

  // Its bytes, the group that completes it, and what copying it and starting it adds to groups.
  void measure(size_t bucket) {
    double bytes = 0;
    int32_t ready = 0;
    for (int32_t place = buckets_.first[bucket]; place < buckets_.first[bucket + 1]; ++place) {
      const size_t gradient = static_cast<size_t>(buckets_.gradients[static_cast<size_t>(place)]);
      const int32_t group = groups_.ready[gradient];
      work_[static_cast<size_t>(group)] += costs_.copy * bytes_[gradient];
      ready = std::max(ready, group);
      bytes += bytes_[gradient];
    }
    bucket_bytes_[bucket] = bytes;
    ready_[bucket] = ready;
    releases_[static_cast<size_t>(ready)] += buckets_.parts[bucket];
    work_[static_cast<size_t>(ready)] += costs_.call * buckets_.parts[bucket];
  }

  Message message(int32_t bucket, int32_t part, MessageKind kind, double bytes) const {
    const PriceTable& price = kind == MessageKind::allreduce        ? costs_.allreduce
                              : kind == MessageKind::reduce_scatter ? costs_.reduce_scatter
                                                                    : costs_.all_gather;
    const double seconds = price.at(bytes);
    const double core = costs_.contention * bytes * (kind == MessageKind::allreduce ? 1.0 : 0.5);
    return {seconds, seconds > 0 ? std::min(1.0, core / seconds) : 0.0, bytes, kNone, bucket, part, kind};
  }

  void send(int32_t bucket) {
    const size_t at = static_cast<size_t>(bucket);
    const MessageKind kind = buckets_.split[at] ? MessageKind::reduce_scatter : MessageKind::allreduce;
    program_.has_split |= buckets_.split[at] != 0;
    for (int32_t part = 0; part < buckets_.parts[at]; ++part)
      program_.messages.push_back(message(bucket, part, kind, bucket_bytes_[at] / buckets_.parts[at]));
  }

  // All-gathers in the order in which the next step's groups read them; each of these waits for the last that it reads.
  void gather() {
    std::vector<Gather> gathers;
    for (size_t bucket = 0; bucket < buckets_.size(); ++bucket)
      if (buckets_.split[bucket]) add_gathers(bucket, gathers);
    std::stable_sort(gathers.begin(), gathers.end(),
                     [](const Gather& a, const Gather& b) { return a.first_read < b.first_read; });
    std::vector<std::vector<int32_t>> place(buckets_.size());
    for (const Gather& one : gathers) {
      auto& places = place[static_cast<size_t>(one.bucket)];
      places.resize(static_cast<size_t>(buckets_.parts[static_cast<size_t>(one.bucket)]));
      places[static_cast<size_t>(one.part)] = static_cast<int32_t>(program_.messages.size());
      program_.messages.push_back(message(one.bucket, one.part, MessageKind::all_gather, one.bytes));
    }
    for (size_t bucket = 0; bucket < buckets_.size(); ++bucket)
      if (buckets_.split[bucket])
        visit_parts(bucket, [&](int32_t read, size_t part) {
          int32_t& wait = waits_[static_cast<size_t>(read)];
          wait = std::max(wait, place[bucket][part]);
        });
  }

  void add_gathers(size_t bucket, std::vector<Gather>& gathers) const {
    const int32_t parts = buckets_.parts[bucket];
    std::vector<int32_t> first_read(static_cast<size_t>(parts), std::numeric_limits<int32_t>::max());
    visit_parts(bucket, [&](int32_t read, size_t part) { first_read[part] = std::min(first_read[part], read); });
    for (int32_t part = 0; part < parts; ++part)
      gathers.push_back(
          {static_cast<int32_t>(bucket), part, first_read[static_cast<size_t>(part)], bucket_bytes_[bucket] / parts});
  }

  // Every gradient of a bucket with every part that holds some of its bytes.
  template <typename Visit>
  void visit_parts(size_t bucket, const Visit& visit) const {
    const double total = bucket_bytes_[bucket], parts = buckets_.parts[bucket];
    const size_t last_part = static_cast<size_t>(buckets_.parts[bucket]) - 1;
    double begin = 0;
    for (int32_t place = buckets_.first[bucket]; place < buckets_.first[bucket + 1]; ++place) {
      const size_t gradient = static_cast<size_t>(buckets_.gradients[static_cast<size_t>(place)]);
      const double end = begin + bytes_[gradient];
      size_t part = total > 0 ? std::min(last_part, static_cast<size_t>(begin * parts / total)) : 0;
      do visit(groups_.read[gradient], part);
      while (++part <= last_part && static_cast<double>(part) * total < end * parts);
      begin = end;
    }
  }

  void add_groups(bool whole) {
    const size_t num_groups = work_.size();
    task_of_group_.resize(num_groups);
    bool open = false;
    for (size_t group = 0; group < num_groups; ++group) {
      if (!open || waits_[group] != kNone) program_.tasks.push_back({0, waits_[group], true});
      program_.tasks.back().seconds += work_[group];
      task_of_group_[group] = static_cast<int32_t>(program_.tasks.size()) - 1;
      open = !whole && releases_[group] == 0;
    }
  }

  // The optimizer of every message that was sent, in order; that of a split bucket also starts its all-gather.
  void add_optimizers(size_t num_sent) {
    std::vector<std::vector<int32_t>> task_of_part(buckets_.size());
    for (size_t number = 0; number < num_sent; ++number) {
      const Message& sent = program_.messages[number];
      const bool split = sent.kind == MessageKind::reduce_scatter;
      const double bytes = sent.bytes * (split ? costs_.shard : 1.0);
      const double seconds = costs_.optimizer_call + costs_.optimizer * bytes + (split ? costs_.call : 0.0);
      task_of_part[static_cast<size_t>(sent.bucket)].push_back(static_cast<int32_t>(program_.tasks.size()));
      program_.tasks.push_back({seconds, static_cast<int32_t>(number), false});
    }
    for (size_t number = num_sent; number < program_.messages.size(); ++number) {
      Message& back = program_.messages[number];
      back.release = task_of_part[static_cast<size_t>(back.bucket)][static_cast<size_t>(back.part)];
    }
  }

  const StepCosts& costs_;
  const std::vector<double>& bytes_;
  const Groups& groups_;
  const Buckets& buckets_;
  std::vector<double> work_, bucket_bytes_;
  std::vector<int32_t> releases_, waits_, ready_, task_of_group_;
  StepProgram program_;
};

}  // namespace

StepProgram step_program(const StepCosts& costs, const std::vector<double>& gradient_bytes, const Groups& groups,
                         const Buckets& buckets, bool whole) {
  ENFORCE(groups.ready.size() == gradient_bytes.size() && groups.read.size() == gradient_bytes.size());
  ENFORCE(buckets.gradients.size() == gradient_bytes.size() && buckets.first.size() == buckets.size() + 1);
  ENFORCE(buckets.split.size() == buckets.size());
  const auto inside = [&](int32_t group) { return group >= 0 && static_cast<size_t>(group) < groups.seconds.size(); };
  ENFORCE(std::ranges::all_of(groups.ready, inside) && std::ranges::all_of(groups.read, inside));
  return Builder(costs, gradient_bytes, groups, buckets).build(whole);
}

}  // namespace hemiola::fusion
