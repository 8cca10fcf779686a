// Arrays: how NumPy's memory becomes spans and vectors become NumPy's, without a copy; and how enums get their names.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cctype>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "enforce.h"
#include "plan_view.h"
#include "proof/promises.h"

namespace hemiola::bindings {

namespace nb = nanobind;
using namespace nb::literals;

template <typename T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = Column<uint8_t>;
using Pairs = nb::ndarray<const uint64_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;

template <typename T>
using Array = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <typename Row>
std::span<const Row> rows(const Bytes& bytes) {
  ENFORCE(bytes.size() % sizeof(Row) == 0, "a table of ", bytes.size(), " bytes has rows of ", sizeof(Row));
  return {reinterpret_cast<const Row*>(bytes.data()), bytes.size() / sizeof(Row)};
}

template <typename T>
std::span<const T> column(const Column<T>& values) {
  return {values.data(), values.size()};
}

inline std::span<const uint64_t> column(const Pairs& values) { return {values.data(), values.size()}; }

// Hands a vector's memory to NumPy as an array of `Element`s.
template <typename Element, typename Row>
Array<Element> give(std::vector<Row>&& values) {
  auto* owned = new std::vector<Row>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<Row>*>(p); });
  const size_t length = owned->size() * sizeof(Row) / sizeof(Element);
  return {reinterpret_cast<Element*>(owned->data()), {length}, owner};
}

template <typename Row>
Array<uint8_t> give_rows(std::vector<Row>&& values) {
  return give<uint8_t>(std::move(values));
}

// A getter that shows a vector of a bound object as an array of `Element`s, which keeps the object alive.
template <typename Element, typename Owner, typename Row>
auto lend(std::vector<Row> Owner::* member) {
  return [member](nb::handle_t<Owner> owner) {
    std::vector<Row>& values = nb::cast<Owner&>(owner).*member;
    const size_t length = values.size() * sizeof(Row) / sizeof(Element);
    return Array<Element>(reinterpret_cast<Element*>(values.data()), {length}, owner);
  };
}

// The name of an enumerator as Python writes it.
inline std::string upper(const char* name) {
  std::string text(name);
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// A plan's tables, and what its collective means, in memory that NumPy owns.
struct PlanArrays {
  Bytes ranks, threadblocks, steps, dependencies;

  PlanView view() const {
    return {rows<Rank>(ranks), rows<Threadblock>(threadblocks), rows<Step>(steps), rows<Dependency>(dependencies)};
  }
};

struct MeaningArrays {
  Bytes held, promised;
  Column<uint32_t> set_first;
  Pairs runs;

  Meaning view() const { return {rows<Holding>(held), rows<Promise>(promised), column(set_first), column(runs)}; }
};

}  // namespace hemiola::bindings
