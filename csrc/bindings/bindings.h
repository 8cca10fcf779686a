// The files of this folder give the C++ core to Python as `hemiola._core`, one file a subject. They are the only ones
// that know nanobind, and they only convert: whatever decides something lies in the folders beside this one.
#pragma once

#include <nanobind/nanobind.h>

namespace hemiola::bindings {

namespace nb = nanobind;

void bind_tables(nb::module_& module);
void bind_trace(nb::module_& module);
void bind_passes(nb::module_& module);
void bind_proof(nb::module_& module);
void bind_kernels(nb::module_& module);
void bind_tiles(nb::module_& module);
void bind_runtime(nb::module_& module);
void bind_simulator(nb::module_& module);
void bind_fusion(nb::module_& module);
void bind_lab(nb::module_& module);

}  // namespace hemiola::bindings
