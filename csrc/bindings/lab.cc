#include <nanobind/stl/vector.h>

#include <cmath>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/bindings.h"
#include "lab/delay_line.h"

namespace hemiola::bindings {

void bind_lab(nb::module_& module) {
  using lab::DelayCounts, lab::DelayLine;
  nb::class_<DelayLine>(module, "DelayLine", "Two devices between which frames pass both ways, each after a delay.")
      .def(
          "__init__",
          [](DelayLine* self, int near, int far, double seconds) {
            new (self) DelayLine{near, far, std::llround(seconds * 1e9)};
          },
          "near"_a, "far"_a, "seconds"_a);
  nb::class_<DelayCounts>(module, "DelayCounts")
      .def_ro("carried", &DelayCounts::carried)
      .def_ro("lost", &DelayCounts::lost, "Frames for which a device or the queue had no room.");
  module.def("carry_frames", &lab::carry_frames, "lines"_a, "stop"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Carries frames between pairs of descriptors until `stop` can be read.");
}

}  // namespace hemiola::bindings
