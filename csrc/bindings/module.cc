#include "bindings/bindings.h"
#include "freed_memory.h"

NB_MODULE(_core, module) {
  using namespace hemiola::bindings;
  // Tables of opcodes and cached plans live in Python's modules until the process ends, which frees them without
  // Python; nanobind would call that a leak, on the terminal of whoever ran a command.
  nb::set_leak_warnings(false);
  module.doc() =
      "The C++ core of Hemiola: the trace of chunk programs, the passes, the proof, the executor, the simulator and "
      "the step model.";
  module.def("version", [] { return HEMIOLA_VERSION; }, "The version of the package this core was built for.");
  module.def("keep_freed_memory", hemiola::keep_freed_memory,
             "Lets this process keep the memory that it frees, for commands that allocate much and then end.");
  bind_tables(module);
  bind_trace(module);
  bind_passes(module);
  bind_proof(module);
  bind_kernels(module);
  bind_tiles(module);
  bind_runtime(module);
  bind_simulator(module);
  bind_fusion(module);
  bind_lab(module);
}
