#include "runtime/tiles.h"

#include <cstdint>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/bindings.h"
#include "runtime/part.h"

namespace hemiola::bindings {

namespace {

using runtime::Cut, runtime::RanksOn, runtime::Tiles;

Array<uint64_t> lengths(const Tiles& tiles) {
  std::vector<uint64_t> found(tiles.num_tiles());
  for (uint64_t tile = 0; tile < found.size(); ++tile) found[tile] = tiles.length(tile);
  return give<uint64_t>(std::move(found));
}

}  // namespace

void bind_tiles(nb::module_& module) {
  module.attr("LINE_BYTES") = runtime::kLine;
  nb::enum_<RanksOn>(module, "RanksOn",
                     "Where the ranks of a call are: on several hosts, on one whose cores they share, or on one with a "
                     "core for each.")
#define RANKS_ON(name) .value(upper(#name).c_str(), RanksOn::name)
#include "runtime/ranks_on.def"
#undef RANKS_ON
      ;
  module.def("locate_ranks", &runtime::locate_ranks, "num_ranks"_a, "num_local_ranks"_a, "ranks_per_core"_a,
             "Where ranks are, of which so many are on this host and so many take turns on its most crowded core.");

  nb::class_<Cut>(module, "Cut", "What of a plan decides how its data is cut; the same for all ranks.")
      .def(nb::init<uint32_t, uint32_t, uint32_t>(), "block_chunks"_a, "max_count"_a, "max_sends"_a)
      .def_static(
          "of",
          [](const PlanArrays& plan, uint32_t block_chunks) { return runtime::cut_of(plan.view(), block_chunks); },
          "plan"_a, "block_chunks"_a, "For a plan; how many chunks a share has is the collective's.")
      .def_ro("block_chunks", &Cut::block_chunks, "Chunks of one share.")
      .def_ro("max_count", &Cut::max_count, "Chunks of the largest message of any rank.")
      .def_ro("max_sends", &Cut::max_sends, "The most connections over which any rank sends.");

  nb::class_<Tiles>(module, "Tiles", "How the runtime cuts the shares of a call.")
      .def_prop_ro("num_tiles", &Tiles::num_tiles)
      .def_prop_ro("tile", &Tiles::tile, "Elements of a chunk in a whole tile.")
      .def_prop_ro("chunk", &Tiles::chunk, "Elements of a chunk, without the remainder.")
      .def_prop_ro("remainder", &Tiles::remainder,
                   "Elements of a chunk in the last tiles, which hold what does not divide, padded; 0 without such.")
      .def("lengths", &lengths, "Elements of a chunk in every tile; ask num_tiles first, there may be many.");
  module.def(
      "cut_into_tiles",
      [](const Cut& cut, uint64_t elements, uint64_t element_bytes, uint32_t message_bytes, uint32_t slot_bytes,
         RanksOn ranks_on) { return Tiles(cut, {elements, element_bytes, message_bytes}, slot_bytes, ranks_on); },
      "cut"_a, nb::kw_only(), "elements"_a, "element_bytes"_a, "message_bytes"_a = 0, "slot_bytes"_a, "ranks_on"_a,
      "How the runtime cuts a call whose shares have so many elements. Messages are at most `message_bytes` long, and "
      "never longer than a slot; 0 lets the runtime choose.");
}

}  // namespace hemiola::bindings
