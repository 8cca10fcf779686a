#include "simulator/sharing.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace hemiola::simulator {

namespace {

constexpr double kSameRate = 1e-14;

}  // namespace

Sharing::Sharing(const Scene& scene, EventQueue& events, uint32_t first_id)
    : scene_(scene),
      events_(events),
      first_id_(first_id),
      flows_(scene.sources.size()),
      place_(scene.uses.size()),
      resources_(scene.capacities.size()),
      alike_(scene.sources.size()),
      cap_class_(scene.sources.size()) {
  std::vector<double> caps;
  caps.reserve(scene.sources.size());
  for (const Source& source : scene.sources) caps.push_back(source.cap);
  std::sort(caps.begin(), caps.end());
  caps.erase(std::unique(caps.begin(), caps.end()), caps.end());
  num_caps_ = static_cast<uint32_t>(caps.size());
  for (size_t k = 0; k < scene.sources.size(); ++k)
    cap_class_[k] =
        static_cast<uint32_t>(std::lower_bound(caps.begin(), caps.end(), scene.sources[k].cap) - caps.begin());
}

void Sharing::start(uint32_t source, double num_bytes, double now) {
  Flow& flow = flows_[source];
  flow.active = true;
  flow.remaining = num_bytes;
  flow.rate = 0;
  flow.since = now;
  const Source& about = scene_.sources[source];
  for (uint32_t use = about.first_use; use < about.first_use + about.num_uses; ++use) {
    auto& users = resources_[scene_.uses[use].resource].users;
    place_[use] = static_cast<uint32_t>(users.size());
    users.push_back({source, use, scene_.uses[use].weight});
  }
  started_.push_back(source);
  touch(source, 1);
}

void Sharing::stop(uint32_t source) {
  flows_[source].active = false;
  const Source& about = scene_.sources[source];
  for (uint32_t use = about.first_use; use < about.first_use + about.num_uses; ++use) {
    auto& users = resources_[scene_.uses[use].resource].users;
    const User last = users.back();
    users[place_[use]] = last;
    place_[last.use] = place_[use];
    users.pop_back();
  }
  Alike& alike = alike_[scene_.sources[source].alike];
  alike.rate = flows_[source].rate;
  alike.limit = flows_[source].limit;
  touch(source, -1);
}

void Sharing::touch(uint32_t source, int32_t change) {
  const uint32_t first = scene_.sources[source].alike;
  alike_[first].change += change;
  alike_[first].num_stopped += change < 0;
  if (alike_[first].touched) return;
  alike_[first].touched = true;
  touched_.push_back(first);
}

// Where as many of a kind began as ended, the rates of all stay, because there is only one fair allocation: those that
// began get the rate of those that ended. The others that began are still to be given a rate.
void Sharing::continue_rates(double now) {
  waiting_.clear();
  for (const uint32_t source : started_) {
    if (!flows_[source].active || flows_[source].rate > 0) continue;
    const Alike& alike = alike_[scene_.sources[source].alike];
    if (alike.change == 0)
      set_rate(source, alike.rate, alike.limit, now);
    else
      waiting_.push_back(source);
  }
  started_.clear();
}

// Marks what has to share anew. Nothing has to where only such ended as nobody was held back by, or where those that
// began find enough left over.
void Sharing::mark_changes(double now) {
  for (const uint32_t first : touched_) {
    const Alike& alike = alike_[first];
    const bool only_stopped = alike.change == -alike.num_stopped, only_started = alike.num_stopped == 0;
    if (alike.change != 0 && (only_stopped ? holds_back(first) : !only_started)) mark(first);
  }
  for (const uint32_t source : waiting_)
    if (!dirty_.empty() || !fits_in(source, now)) mark(source);
  for (const uint32_t first : touched_) {
    alike_[first].change = alike_[first].num_stopped = 0;
    alike_[first].touched = false;
  }
  touched_.clear();
}

// Whether the rate of someone who goes on is limited by a resource that this source uses.
bool Sharing::holds_back(uint32_t source) const {
  const Source& about = scene_.sources[source];
  for (uint32_t use = about.first_use; use < about.first_use + about.num_uses; ++use) {
    const uint32_t resource = scene_.uses[use].resource;
    for (const User& user : resources_[resource].users)
      if (flows_[user.source].limit == static_cast<int32_t>(resource)) return true;
  }
  return false;
}

// Gives a source that began what its resources have left over, if that is fair: it has all that it can take, or it
// fills a resource in which nobody has more. The others keep their rates, for none of what limits them has changed.
bool Sharing::fits_in(uint32_t source, double now) {
  const Source& about = scene_.sources[source];
  double rate = about.cap, highest = 0;
  int32_t limit = about.limit;
  for (uint32_t use = about.first_use; use < about.first_use + about.num_uses; ++use) {
    const uint32_t number = scene_.uses[use].resource;
    double left = scene_.capacities[number], most = 0;
    for (const User& user : resources_[number].users) {
      left -= flows_[user.source].rate * user.weight;
      most = std::max(most, flows_[user.source].rate);
    }
    if (left >= rate * scene_.uses[use].weight) continue;
    rate = left / scene_.uses[use].weight;
    highest = most;
    limit = static_cast<int32_t>(number);
  }
  if (rate <= 0 || rate < highest) return false;
  set_rate(source, rate, limit, now);
  return true;
}

// Of a source that has just begun.
void Sharing::set_rate(uint32_t source, double rate, int32_t limit, double now) {
  Flow& flow = flows_[source];
  flow.rate = rate;
  flow.limit = limit;
  events_.set(first_id_ + source, now + flow.remaining / flow.rate);
}

void Sharing::mark(uint32_t source) {
  const Source& about = scene_.sources[source];
  for (uint32_t use = about.first_use; use < about.first_use + about.num_uses; ++use) {
    const uint32_t resource = scene_.uses[use].resource;
    if (resources_[resource].dirty) continue;
    resources_[resource].dirty = true;
    dirty_.push_back(resource);
  }
}

void Sharing::see(uint32_t source) {
  if (flows_[source].seen) return;
  flows_[source].seen = true;
  flows_[source].frozen = false;
  members_.push_back(source);
}

// Whether the flows that use a resource now could together take more than it has.
bool Sharing::can_bind(uint32_t number) const {
  const Resource& resource = resources_[number];
  double most = 0;
  for (const User& user : resource.users) most += scene_.sources[user.source].cap * user.weight;
  return most > scene_.capacities[number];
}

// Everything that is connected with what has changed through flows that go on now, and through resources that can make
// one of them take less than it could.
void Sharing::collect() {
  members_.clear();
  component_.clear();
  for (const uint32_t resource : dirty_) {
    resources_[resource].dirty = false;
    resources_[resource].seen = true;
    component_.push_back(resource);
  }
  dirty_.clear();
  size_t next = 0;
  for (size_t at = 0; at < component_.size(); ++at) {
    for (const User& user : resources_[component_[at]].users) see(user.source);
    for (; next < members_.size(); ++next) {
      const Source& about = scene_.sources[members_[next]];
      for (uint32_t use = about.first_use; use < about.first_use + about.num_uses; ++use) {
        const uint32_t resource = scene_.uses[use].resource;
        if (resources_[resource].seen || !can_bind(resource)) continue;
        resources_[resource].seen = true;
        component_.push_back(resource);
      }
    }
  }
}

void Sharing::freeze(uint32_t source, double rate, int32_t limit) {
  Flow& flow = flows_[source];
  flow.frozen = true;
  flow.next_rate = rate;
  flow.limit = limit;
  const Source& about = scene_.sources[source];
  for (uint32_t use = about.first_use; use < about.first_use + about.num_uses; ++use) {
    Resource& resource = resources_[scene_.uses[use].resource];
    resource.available -= rate * scene_.uses[use].weight;
    resource.weight -= scene_.uses[use].weight;
    --resource.num_open;
  }
}

// Raises all rates together; whoever meets a full resource or its own limit keeps the rate that it has there.
void Sharing::fill() {
  for (const uint32_t number : component_) {
    Resource& resource = resources_[number];
    resource.seen = false;
    resource.available = scene_.capacities[number];
    resource.num_open = static_cast<uint32_t>(resource.users.size());
    resource.weight = 0;
    for (const User& user : resource.users) resource.weight += user.weight;
  }
  by_cap();
  heap_.clear();
  for (const uint32_t number : component_)
    if (can_bind(number)) heap_.push_back({share(number), number});
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  size_t num_open = members_.size();
  for (size_t at = 0; num_open > 0;) {
    const uint32_t fullest = next_full();
    while (flows_[members_[at]].frozen) ++at;
    const Source& lowest = scene_.sources[members_[at]];
    if (fullest == kNone || lowest.cap <= share(fullest)) {
      freeze(members_[at], lowest.cap, lowest.limit);
      --num_open;
      continue;
    }
    const double rate = std::max(share(fullest), 0.0);
    for (const User& user : resources_[fullest].users)
      if (!flows_[user.source].frozen) {
        freeze(user.source, rate, static_cast<int32_t>(fullest));
        --num_open;
      }
  }
}

// The resource that is full next. What it offers to each only grows while others take less, so an entry of the
// heap that has become too low is put back where it belongs.
uint32_t Sharing::next_full() {
  while (!heap_.empty()) {
    const auto [known, number] = heap_.front();
    if (resources_[number].num_open > 0 && share(number) <= known) return number;
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    if (resources_[number].num_open > 0) {
      heap_.back().first = share(number);
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    } else {
      heap_.pop_back();
    }
  }
  return kNone;
}

// Orders the members by their limits, of which there are few different ones.
void Sharing::by_cap() {
  if (members_.size() < 2) return;
  first_of_class_.assign(num_caps_ + 1, 0);
  for (const uint32_t source : members_) ++first_of_class_[cap_class_[source] + 1];
  for (uint32_t k = 0; k < num_caps_; ++k) first_of_class_[k + 1] += first_of_class_[k];
  ordered_.resize(members_.size());
  for (const uint32_t source : members_) ordered_[first_of_class_[cap_class_[source]]++] = source;
  members_.swap(ordered_);
}

void Sharing::settle(double now) {
  continue_rates(now);
  mark_changes(now);
  if (!dirty_.empty()) give_rates(now);
}

void Sharing::give_rates(double now) {
  collect();
  fill();
  for (const uint32_t source : members_) {
    Flow& flow = flows_[source];
    flow.seen = false;
    if (std::abs(flow.next_rate - flow.rate) <= kSameRate * flow.rate) continue;
    flow.remaining = std::max(0.0, flow.remaining - flow.rate * (now - flow.since));
    flow.since = now;
    flow.rate = flow.next_rate;
    events_.set(first_id_ + source, now + flow.remaining / flow.rate);
  }
}

}  // namespace hemiola::simulator
