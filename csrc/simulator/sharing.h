// Flows that share resources max-min fairly: nobody's rate can grow without taking from one who has no more.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "simulator/event_queue.h"
#include "simulator/scene.h"

namespace hemiola::simulator {

class Sharing {
 public:
  // The event of source s has the id first_id + s in the queue.
  Sharing(const Scene& scene, EventQueue& events, uint32_t first_id);

  void start(uint32_t source, double num_bytes, double now);
  void stop(uint32_t source);
  // Gives new rates to all whose rates may have changed, and moves their events.
  void settle(double now);
  // What limits a flow's rate: a resource, or kNoResource.
  int32_t limit(uint32_t source) const { return flows_[source].limit; }

 private:
  struct Flow {
    double remaining = 0, rate = 0, since = 0;
    double next_rate = 0;
    int32_t limit = kNoResource;
    bool active = false, seen = false, frozen = false;
  };
  struct User {
    uint32_t source, use;
    double weight;
  };
  struct Resource {
    std::vector<User> users;  // active ones
    double available = 0, weight = 0;
    uint32_t num_open = 0;  // users without a rate
    bool dirty = false, seen = false;
  };

  // Sources that are alike (Source::alike): how many more of them are active than when rates were made, how many ended
  // since, and their rate.
  struct Alike {
    int32_t change = 0, num_stopped = 0;
    bool touched = false;
    double rate = 0;
    int32_t limit = kNoResource;
  };

  void touch(uint32_t source, int32_t change);
  void continue_rates(double now);
  void mark_changes(double now);
  bool holds_back(uint32_t source) const;
  bool fits_in(uint32_t source, double now);
  void set_rate(uint32_t source, double rate, int32_t limit, double now);
  void give_rates(double now);
  void mark(uint32_t source);
  bool can_bind(uint32_t number) const;
  void collect();
  void see(uint32_t source);
  void fill();
  uint32_t next_full();
  void by_cap();
  double share(uint32_t resource) const { return resources_[resource].available / resources_[resource].weight; }
  void freeze(uint32_t source, double rate, int32_t limit);

  const Scene& scene_;
  EventQueue& events_;
  const uint32_t first_id_;
  std::vector<Flow> flows_;
  std::vector<uint32_t> place_;  // of every use, among the users of its resource
  std::vector<Resource> resources_;
  std::vector<Alike> alike_;  // by the first of them
  std::vector<uint32_t> touched_, started_, waiting_;
  std::vector<uint32_t> dirty_, component_, members_, ordered_;
  std::vector<uint32_t> cap_class_;  // of every source: the place of its cap among all
  uint32_t num_caps_ = 0;
  std::vector<uint32_t> first_of_class_;
  std::vector<std::pair<double, uint32_t>> heap_;
};

}  // namespace hemiola::simulator
