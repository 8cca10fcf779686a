#include "simulator/sharing.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "enforce.h"

namespace hemiola::simulator {

namespace {

constexpr double kSameRate = 1e-14;

}  // namespace

Sharing::Sharing(const Scene& scene, EventQueue& events, uint32_t first_id)
    : scene_(scene), events_(events), first_id_(first_id), flows_(scene.sources.size()), place_(scene.uses.size()),
      resources_(scene.capacities.size()) {}

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
  if (members_.size() > 1)
    std::sort(members_.begin(), members_.end(), [this](uint32_t a, uint32_t b) {
      const double first = scene_.sources[a].cap, second = scene_.sources[b].cap;
      return first != second ? first < second : a < b;
    });
  size_t num_open = members_.size();
  for (size_t at = 0; num_open > 0;) {
    double least = std::numeric_limits<double>::infinity();
    uint32_t fullest = kNone;
    size_t kept = 0;
    for (const uint32_t number : component_) {
      const Resource& resource = resources_[number];
      if (resource.num_open == 0) continue;
      component_[kept++] = number;
      const double share = resource.available / resource.weight;
      if (share < least) {
        least = share;
        fullest = number;
      }
    }
    component_.resize(kept);
    while (flows_[members_[at]].frozen) ++at;
    if (const Source& lowest = scene_.sources[members_[at]]; lowest.cap <= least) {
      freeze(members_[at], lowest.cap, lowest.limit);
      --num_open;
      continue;
    }
    ENFORCE(fullest != kNone);
    for (const User& user : resources_[fullest].users)
      if (!flows_[user.source].frozen) {
        freeze(user.source, std::max(least, 0.0), static_cast<int32_t>(fullest));
        --num_open;
      }
  }
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
