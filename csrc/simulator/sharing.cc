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
    users.push_back({source, use});
  }
  mark(source);
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
  mark(source);
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

// Everything that is connected with what has changed through flows that go on now.
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
        if (resources_[resource].seen) continue;
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
    for (const User& user : resource.users) resource.weight += scene_.uses[user.use].weight;
  }
  by_cap();
  heap_.clear();
  for (const uint32_t number : component_)
    if (resources_[number].num_open > 0) heap_.push_back({share(number), number});
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
  if (dirty_.empty()) return;
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
