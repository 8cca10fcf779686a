#include "layouts.h"

#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "runtime/call.h"
#include "simulator/simulator.h"
#include "tables.h"

namespace hemiola {
namespace {

static_assert(std::endian::native == std::endian::little, "tables in memory and in files are little-endian");

template <typename Field>
constexpr char kind_of() {
  if constexpr (std::is_enum_v<Field>) {
    return kind_of<std::underlying_type_t<Field>>();
  } else {
    static_assert(std::is_arithmetic_v<Field>);
    return std::is_floating_point_v<Field> ? 'f' : std::is_signed_v<Field> ? 'i' : 'u';
  }
}

constexpr size_t bytes_of(std::span<const ColumnLayout> columns) {
  size_t num_bytes = 0;
  for (const ColumnLayout& column : columns) num_bytes += column.num_bytes;
  return num_bytes;
}

// clang-format off
#define TABLE(name) constexpr ColumnLayout k##name##Columns[] = {
#define COLUMN(type, name) {#name, kind_of<type>(), sizeof(type)},
#define END_TABLE(name) }; static_assert(bytes_of(k##name##Columns) == sizeof(name), "there is a gap between columns");
// clang-format on
#include "tables.def"
using runtime::TraceEvent;
#include "runtime/tables.def"
using simulator::Cause, simulator::PathPiece, simulator::PathPieceKind, simulator::Record;
#include "simulator/tables.def"
#undef TABLE
#undef COLUMN
#undef END_TABLE

constexpr std::array kLayouts = {
#define TABLE(name) TableLayout{#name, k##name##Columns},
#define COLUMN(type, name)
#define END_TABLE(name)
#include "runtime/tables.def"
#include "simulator/tables.def"
#include "tables.def"
#undef TABLE
#undef COLUMN
#undef END_TABLE
};

}  // namespace

std::span<const TableLayout> table_layouts() { return kLayouts; }

}  // namespace hemiola
