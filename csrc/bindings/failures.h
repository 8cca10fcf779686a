// How a failure of the runtime is given to Python.
#pragma once

#include <nanobind/nanobind.h>

#include "runtime/board.h"

namespace hemiola::bindings {

// None where nothing failed. Python may have asked for the interrupt itself, and has its own words for it.
inline nanobind::object give_failure(const runtime::Failure& failure) {
  if (!failure) [[likely]]
    return nanobind::none();
  if (failure.kind == runtime::FailureKind::interrupted && PyErr_Occurred() != nullptr) throw nanobind::python_error();
  return nanobind::cast(failure);
}

}  // namespace hemiola::bindings
