// What several parts of the core share: opcodes, the layout of tables, and views of a plan and of its meaning.
#include "tables.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string_view>

#include "bindings/arrays.h"
#include "bindings/bindings.h"
#include "layouts.h"

namespace hemiola::bindings {

namespace {

using NamedFormats = std::vector<std::pair<std::string, std::string>>;

NamedFormats layout(std::string_view name) {
  for (const TableLayout& table : table_layouts()) {
    if (table.name != name) continue;
    NamedFormats columns;
    for (const ColumnLayout& c : table.columns)
      columns.emplace_back(c.name, std::string("<") + c.kind + std::to_string(c.num_bytes));
    return columns;
  }
  throw std::invalid_argument("there is no table " + std::string(name));
}

void bind_opcodes(nb::module_& module) {
  nb::enum_<Opcode> opcodes(module, "Opcode", nb::is_arithmetic(),
                            "The type of a step, with the name that MSCCL's XML gives it.");
  for (size_t k = 0; k < kOpcodeTraits.size(); ++k)
    opcodes.value(upper(kOpcodeTraits[k].name).c_str(), static_cast<Opcode>(k), kOpcodeTraits[k].meaning);
  nb::class_<OpcodeTraits>(module, "OpcodeTraits", "What an opcode reads, writes, takes from and gives to the wire.")
      .def_ro("name", &OpcodeTraits::name)
      .def_ro("receives", &OpcodeTraits::receives)
      .def_ro("reads_source", &OpcodeTraits::reads_source)
      .def_ro("reads_destination", &OpcodeTraits::reads_destination)
      .def_ro("writes_destination", &OpcodeTraits::writes_destination)
      .def_ro("sends", &OpcodeTraits::sends)
      .def_ro("meaning", &OpcodeTraits::meaning)
      .def_prop_ro("reduces", &OpcodeTraits::reduces, "Whether two values are added.");
  module.def(
      "opcode_traits", [] { return std::vector(kOpcodeTraits.begin(), kOpcodeTraits.end()); },
      "What every opcode does, in the order of their numbers.");
}

}  // namespace

void bind_tables(nb::module_& module) {
  module.attr("NO_PEER") = kNoPeer;
  module.attr("AUTOMATIC") = kAutomatic;
  module.attr("NO_ROW") = kNone;
  bind_opcodes(module);
  nb::enum_<Kind>(module, "OperationKind", nb::is_arithmetic(),
                  "COPY: destination = source. REDUCE: destination += source.")
      .value("COPY", Kind::copy)
      .value("REDUCE", Kind::reduce);
  module.def("layout", &layout, "table"_a, "Name and NumPy's format of every column of a table; there are no gaps.");

  nb::class_<PlanArrays>(module, "PlanView", "The four tables of a plan, not copied.")
      .def(nb::init<Bytes, Bytes, Bytes, Bytes>(), "ranks"_a, "threadblocks"_a, "steps"_a, "dependencies"_a);
  nb::class_<MeaningArrays>(module, "MeaningView", "What a collective starts from and promises, not copied.")
      .def(nb::init<Bytes, Bytes, Column<uint32_t>, Pairs>(), "held"_a, "promised"_a, "set_first"_a, "runs"_a);
}

}  // namespace hemiola::bindings
