#include "bindings/started_call.h"

#include <nanobind/stl/optional.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "bindings/arrays.h"
#include "bindings/failures.h"
#include "runtime/clock.h"

namespace hemiola::bindings {

namespace {

constexpr int64_t kSignalInterval = 100'000'000;  // nanoseconds after which Python's signal handlers get their turn

bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// Python's lock is free while this lives. Once the interpreter ends, it kills threads that ask for the lock, which C++
// does not survive; such a thread stays here instead, until the process ends.
class LockReleased {
 public:
  LockReleased() : state_(PyEval_SaveThread()) {}
  ~LockReleased() {
    while (is_finalizing()) pause();
    PyEval_RestoreThread(state_);
  }
  LockReleased(const LockReleased&) = delete;
  LockReleased& operator=(const LockReleased&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace

StartedCall::StartedCall(std::shared_ptr<runtime::QueuedCall> call, nanobind::object owner)
    : call_(std::move(call)), owner_(std::move(owner)) {}

StartedCall::~StartedCall() {
  if (call_ && !is_done()) owner_.release();
}

bool StartedCall::is_done() {
  if (!call_->is_done()) return false;
  owner_.reset();
  return true;
}

bool StartedCall::wait(std::optional<double> seconds, bool pays_attention) {
  const int64_t begin = runtime::now();
  const int64_t limit = seconds ? static_cast<int64_t>(std::min(*seconds, 1e9) * 1e9) : INT64_MAX;
  while (!is_done()) {
    const int64_t left = limit - (runtime::now() - begin);
    if (left <= 0) return false;
    {
      const LockReleased released;
      call_->wait(std::min(left, kSignalInterval), pays_attention);
    }
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
  }
  return true;
}

nanobind::object StartedCall::failure() const {
  return call_->is_done() ? give_failure(call_->failure()) : nanobind::none();
}

void bind_started_call(nb::module_& module) {
  nb::class_<StartedCall>(module, "StartedCall", "A call that the progress thread runs.")
      .def("done", &StartedCall::is_done)
      .def("wait", &StartedCall::wait, "seconds"_a.none(), "pays_attention"_a = true,
           "Whether the call has ended; None waits without a limit. The thread hurries for those who pay attention.")
      .def("failure", &StartedCall::failure, nb::sig("def failure(self) -> RunFailure | None"),
           "Why the call failed; None while it runs and where it did not fail.");
}

}  // namespace hemiola::bindings
