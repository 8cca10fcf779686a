// A rehearsal: jobs that are wired and folded once, and then replayed with tiles of any number and size.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "simulator/scene.h"

namespace hemiola::simulator {

class Rehearsal {
 public:
  // Jobs whose kinds are equal have the same tiles in every replay, which lets their threadblocks stand for each other.
  // The tiles of the jobs themselves are not read.
  Rehearsal(std::span<const Job> jobs, const Setting& setting, std::span<const uint32_t> tile_kinds);

  // The end of the last threadblock, for the tiles of every kind; negative where some threadblock waits forever.
  double seconds(std::span<const std::span<const double>> tiles_of_kinds);

  // Steps that are stepped for every tile.
  uint64_t num_steps() const { return scene_.steps.size(); }

 private:
  std::vector<uint32_t> tile_kinds_;
  Scene scene_;
};

}  // namespace hemiola::simulator
