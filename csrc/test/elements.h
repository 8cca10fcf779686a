// Elements one at a time, slow and obviously right: the judge of the kernels.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "runtime/kernels.h"

namespace hemiola::test {

// A floating number of 16 bits. Sums, products and quotients by small numbers of two of them are rounded to a
// double first, whose 53 bits are so many that rounding again to kSignificand bits gives what one rounding gives.
template <int kExponentBits>
struct Short {
  static constexpr int kSignificand = 16 - kExponentBits;  // with the leading one
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr int kSmallest = 2 - kBias - kSignificand;  // the exponent of the smallest subnormal
  static constexpr uint16_t kInfinity = static_cast<uint16_t>(((1 << kExponentBits) - 1) << (kSignificand - 1));
  static constexpr uint16_t kNan = static_cast<uint16_t>(kInfinity | 1 << (kSignificand - 2));

  uint16_t bits;
};
using F16 = Short<5>;
using Bf16 = Short<8>;

template <int E>
double decode(Short<E> x) {
  using S = Short<E>;
  const int exponent = (x.bits & S::kInfinity) >> (S::kSignificand - 1);
  const int fraction = x.bits & ((1 << (S::kSignificand - 1)) - 1);
  const int leading = exponent > 0 ? 1 << (S::kSignificand - 1) : 0;
  double magnitude = std::ldexp(leading + fraction, S::kSmallest + (exponent > 0 ? exponent - 1 : 0));
  if ((x.bits & S::kInfinity) == S::kInfinity) {
    magnitude = fraction > 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  }
  return x.bits & 0x8000 ? -magnitude : magnitude;
}
template <typename T>
T decode(T x) {
  return x;
}

template <typename T>
T encode(T x) {
  if constexpr (std::is_same_v<T, float>) return std::isnan(x) ? std::bit_cast<float>(0x7fc0'0000u) : x;
  if constexpr (std::is_same_v<T, double>) return std::isnan(x) ? std::bit_cast<double>(0x7ff8'0000'0000'0000u) : x;
  return x;
}
template <typename T>
  requires(sizeof(T) == 2)
T encode(double x) {
  if (std::isnan(x)) return {T::kNan};
  const auto sign = static_cast<uint16_t>(std::signbit(x) ? 0x8000 : 0);
  const double magnitude = std::fabs(x);
  if (magnitude == 0) return {sign};
  if (std::isinf(x)) return {static_cast<uint16_t>(sign | T::kInfinity)};
  // In units of the last bit, to nearest, ties to even; the bits of all magnitudes follow one another.
  const int quantum = std::max(std::ilogb(magnitude) + 1 - T::kSignificand, T::kSmallest);
  const auto units = static_cast<int64_t>(std::nearbyint(std::ldexp(magnitude, -quantum)));
  const int64_t bits = units + (static_cast<int64_t>(quantum - T::kSmallest) << (T::kSignificand - 1));
  return {static_cast<uint16_t>(sign | std::min<int64_t>(bits, T::kInfinity))};
}

template <typename V>
V combine(runtime::Operator op, V a, V b) {
  using runtime::Operator;
  if constexpr (std::is_integral_v<V>) {
    if (op == Operator::sum) return static_cast<V>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    if (op == Operator::prod) return static_cast<V>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    return (op == Operator::min) == (a < b) ? a : b;
  } else {
    if (op == Operator::sum) return a + b;
    if (op == Operator::prod) return a * b;
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<V>::quiet_NaN();
    const bool a_is_less = a < b || (a == b && std::signbit(a));
    return (op == Operator::min) == a_is_less ? a : b;
  }
}

template <typename T>
T reduced(runtime::Operator op, T a, T b) {
  return encode<T>(combine(op, decode(a), decode(b)));
}

template <typename T>
T divided(T a, int64_t divisor) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<int64_t>(a) / divisor);
  } else {
    using Value = decltype(decode(a));
    return encode<T>(decode(a) / static_cast<Value>(divisor));
  }
}

}  // namespace hemiola::test
