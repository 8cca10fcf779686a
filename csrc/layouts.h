// Layouts: how the rows of every table lie in memory, said once. A .def file lists the columns of a row:
//
//   TABLE(Dependency)
//   COLUMN(uint32_t, threadblock)
//   COLUMN(uint32_t, step)
//   END_TABLE(Dependency)
//
// row_structs.inc makes the struct of it and layouts.cc its description, of which Python makes its NumPy dtype; both
// sides then share the memory of a table.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace hemiola {

// Little-endian. Columns follow each other without a gap, so that their order says where they lie.
struct ColumnLayout {
  const char* name;
  char kind;  // as NumPy says it: u, i or f
  size_t num_bytes;
};

struct TableLayout {
  std::string_view name;
  std::span<const ColumnLayout> columns;
};

std::span<const TableLayout> table_layouts();

}  // namespace hemiola
