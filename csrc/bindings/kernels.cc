#include "runtime/kernels.h"

#include <nanobind/stl/optional.h>

#include <optional>

#include "bindings/arrays.h"
#include "bindings/bindings.h"
#include "bindings/buffer_view.h"
#include "runtime/cache_size.h"

namespace hemiola::bindings {

namespace {

using runtime::ElementType, runtime::Operator;

// Memory of an array on the CPU, however its owner describes it.
struct ArrayMemory {
  uintptr_t address;
  size_t num_bytes;
  uint8_t type_code, bits;  // of DLPack
  bool in_order;            // the elements follow each other

  std::optional<ElementType> type() const {
#define ELEMENT_TYPE(name, python_name, num_bytes, dlpack_code)                                        \
  if (type_code == static_cast<uint8_t>(nb::dlpack::dtype_code::dlpack_code) && bits == 8 * num_bytes) \
    return ElementType::name;
#include "runtime/element_types.def"
#undef ELEMENT_TYPE
    return std::nullopt;
  }
};

template <typename Array>
ArrayMemory describe(const Array& array) {
  bool in_order = true;
  int64_t stride = 1;
  for (size_t k = array.ndim(); k-- > 0;) {
    in_order &= array.shape(k) == 1 || array.size() == 0 || array.stride(k) == stride;
    stride *= static_cast<int64_t>(array.shape(k));
  }
  return {reinterpret_cast<uintptr_t>(array.data()), array.nbytes(), array.dtype().code, array.dtype().bits, in_order};
}

void reduce(nb::handle out, nb::handle a, nb::handle b, ElementType type, Operator op, bool stream) {
  const BufferView result(out, true), left(a, false), right(b, false);
  ENFORCE(left.size() == result.size() && right.size() == result.size());
  const nb::gil_scoped_release unlocked;
  runtime::kernels(type, op).reduce(result.data(), left.data(), right.data(),
                                    result.size() / runtime::element_size(type), stream);
}

void copy(nb::handle out, nb::handle source, bool stream) {
  const BufferView result(out, true), from(source, false);
  ENFORCE(from.size() == result.size());
  const nb::gil_scoped_release unlocked;
  runtime::copy(result.data(), from.data(), result.size(), stream);
}

}  // namespace

void bind_kernels(nb::module_& module) {
  nb::enum_<ElementType>(module, "ElementType", "What moves and adds, named as NumPy names it.")
#define ELEMENT_TYPE(name, python_name, ...) .value(upper(#python_name).c_str(), ElementType::name)
#include "runtime/element_types.def"
#undef ELEMENT_TYPE
      .def_prop_ro("num_bytes", &runtime::element_size);
  nb::enum_<Operator>(module, "Operator", "How two contributions become one.")
#define OPERATOR(name, ...) .value(upper(#name).c_str(), Operator::name)
#include "runtime/operators.def"
#undef OPERATOR
      ;
  nb::class_<ArrayMemory>(module, "ArrayMemory", "Where an array on the CPU lies, and what lies there.")
      .def_ro("address", &ArrayMemory::address)
      .def_ro("num_bytes", &ArrayMemory::num_bytes)
      .def_prop_ro("type", &ArrayMemory::type, "None where no kernel knows the type.")
      .def_ro("type_code", &ArrayMemory::type_code, "DLPack's.")
      .def_ro("bits", &ArrayMemory::bits)
      .def_ro("in_order", &ArrayMemory::in_order, "Whether the elements follow each other.");
  module.def(
      "memory",
      [](nb::handle array, bool writable) {
        if (writable) return describe(nb::cast<nb::ndarray<nb::device::cpu>>(array));
        return describe(nb::cast<nb::ndarray<nb::ro, nb::device::cpu>>(array));
      },
      "array"_a, "writable"_a);

  // For tests and for measuring what this machine can do at best.
  module.def("reduce", &reduce, "out"_a, "a"_a, "b"_a, "type"_a, "op"_a, "stream"_a);
  module.def("copy", &copy, "out"_a, "source"_a, "stream"_a);
  module.def("shared_cache_bytes", &runtime::shared_cache_bytes, "The last cache that cores of this host share.");
}

}  // namespace hemiola::bindings
