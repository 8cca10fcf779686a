// What one vector of elements does to another: the operators, and the element types they work on.
// See kernels_body.h for who includes this.
#pragma once

#include <type_traits>

#include "runtime/kernels_vector.h"

namespace hemiola::runtime::HEMIOLA_KERNELS {
namespace {

template <typename T>
using BitsOf = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

// The one NaN that leaves a kernel: which of two NaNs an instruction passes on depends on their order.
template <typename T>
Lanes<T> nan() {
  constexpr BitsOf<T> kBits = sizeof(T) == 8 ? static_cast<BitsOf<T>>(0x7ff8'0000'0000'0000u) : 0x7fc0'0000u;
  return (Lanes<T>)(Lanes<BitsOf<T>>{} + kBits);
}

// Overflow of integers wraps around, so these compute without a sign; what is not a number becomes nan().
template <typename T, typename Compute>
Lanes<T> calculate(Lanes<T> a, Lanes<T> b, Compute compute) {
  if constexpr (std::is_floating_point_v<T>) {
    const Lanes<T> result = compute(a, b);
    return result == result ? result : nan<T>();
  } else {
    using Unsigned = Lanes<std::make_unsigned_t<T>>;
    return (Lanes<T>)compute((Unsigned)a, (Unsigned)b);
  }
}

struct Sum {
  template <typename T>
  static Lanes<T> of(Lanes<T> a, Lanes<T> b) {
    return calculate<T>(a, b, [](auto x, auto y) { return x + y; });
  }
};

struct Product {
  template <typename T>
  static Lanes<T> of(Lanes<T> a, Lanes<T> b) {
    return calculate<T>(a, b, [](auto x, auto y) { return x * y; });
  }
};

struct Quotient {
  template <typename T>
  static Lanes<T> of(Lanes<T> a, Lanes<T> b) {
    return calculate<T>(a, b, [](auto x, auto y) { return x / y; });
  }
};

// Equal numbers differ at most in the sign of zero: -0 counts as less than +0.
struct Minimum {
  template <typename T>
  static Lanes<T> of(Lanes<T> a, Lanes<T> b) {
    if constexpr (std::is_floating_point_v<T>) {
      using Bits = Lanes<BitsOf<T>>;
      const auto if_equal = (Lanes<T>)((Bits)a | (Bits)b);
      return a < b ? a : (b < a ? b : (a == b ? if_equal : nan<T>()));
    } else {
      return a < b ? a : b;
    }
  }
};

struct Maximum {
  template <typename T>
  static Lanes<T> of(Lanes<T> a, Lanes<T> b) {
    if constexpr (std::is_floating_point_v<T>) {
      using Bits = Lanes<BitsOf<T>>;
      const auto if_equal = (Lanes<T>)((Bits)a & (Bits)b);
      return a > b ? a : (b > a ? b : (a == b ? if_equal : nan<T>()));
    } else {
      return a > b ? a : b;
    }
  }
};

// Elements that the processor computes with as they are.
template <typename T>
struct Native {
  using Element = T;

  template <typename Op>
  static Vector apply(Vector a, Vector b) {
    return (Vector)Op::template of<T>((Lanes<T>)a, (Lanes<T>)b);
  }
  static Vector divide(Vector a, T divisor) { return (Vector)Quotient::of<T>((Lanes<T>)a, Lanes<T>{} + divisor); }
};

// Elements of 16 bits, two vectors of floats to a vector. The significand of a float is more than twice as
// long as theirs, so that rounding an operation's result to a float first does not change what it is rounded
// to in the end: one rounding in effect.
struct Floats {
  Lanes<float> first, second;
};

template <typename Format>
struct Widened {
  using Element = float;

  template <typename Op>
  static Vector apply(Vector a, Vector b) {
    return apply<Op>(Format::widen(a), Format::widen(b));
  }
  static Vector divide(Vector a, float divisor) {
    const auto divisors = Lanes<float>{} + divisor;
    return apply<Quotient>(Format::widen(a), Floats{divisors, divisors});
  }

 private:
  template <typename Op>
  static Vector apply(Floats a, Floats b) {
    return Format::narrow({Op::template of<float>(a.first, b.first), Op::template of<float>(a.second, b.second)});
  }
};

// bfloat16 is the upper half of a float.
struct Brain {
  static Floats widen(Vector v) { return {(Lanes<float>)(v << 16), (Lanes<float>)(v & 0xffff'0000u)}; }
  static Vector narrow(Floats f) { return round(f.first) >> 16 | (round(f.second) & 0xffff'0000u); }

 private:
  // To nearest, ties to even, in the upper half; nan() stays as it is.
  static Vector round(Lanes<float> f) {
    const auto bits = (Vector)f;
    return bits + 0x7fffu + (bits >> 16 & 1u);
  }
};

#ifdef __F16C__

struct Half {
  static Floats widen(Vector v) {
    const auto halves = (__m256i)v;
    return {(Lanes<float>)_mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
            (Lanes<float>)_mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
  }
  static Vector narrow(Floats f) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return (Vector)_mm256_set_m128i(_mm256_cvtps_ph((__m256)f.second, kNearest),
                                    _mm256_cvtps_ph((__m256)f.first, kNearest));
  }
};

#else

// The exponent of a float has 3 bits more and a bias that is 112 higher; its significand has 13 bits more.
struct Half {
  static Floats widen(Vector v) { return {widen_low(v & 0xffffu), widen_low(v >> 16)}; }
  static Vector narrow(Floats f) { return narrow_low(f.first) | narrow_low(f.second) << 16; }

 private:
  using Bits = Lanes<int32_t>;  // without the sign, which makes comparisons those of the magnitudes

  static constexpr int32_t kRebias = 112 << 23;
  static constexpr int32_t kInfinity = 0x7f80'0000;
  static constexpr int32_t kSmallestNormal = 113 << 23;  // 2^-14
  static constexpr int32_t kBeyond = 143 << 23;          // 2^16: infinite as a half
  static constexpr int32_t kOneHalf = 126 << 23;         // 0.5, whose last bit is that of the smallest half, 2^-24

  static Bits all(int32_t bits) { return Bits{} + bits; }
  static Bits sum(Bits a, Bits b) { return (Bits)((Lanes<float>)a + (Lanes<float>)b); }

  static Lanes<float> widen_low(Vector v) {
    const auto magnitude = (Bits)((v & 0x7fffu) << 13);
    const Bits exponent = magnitude & (0x1f << 23);
    // Subnormals get the exponent of the smallest normal and with it a leading one, which is taken off again.
    const Bits subnormal = sum(magnitude + kSmallestNormal, all(INT32_MIN | kSmallestNormal));
    const Bits normal = magnitude + kRebias;
    const Bits wide = exponent == 0 ? subnormal : (exponent == (0x1f << 23) ? (magnitude | kInfinity) : normal);
    return (Lanes<float>)((Vector)wide | (v & 0x8000u) << 16);
  }

  static Vector narrow_low(Lanes<float> f) {
    const auto bits = (Vector)f;
    const auto magnitude = (Bits)(bits & 0x7fff'ffffu);
    // Adding one half makes the processor round to the last bit of subnormal halves.
    const Bits subnormal = sum(magnitude, all(kOneHalf)) - kOneHalf;
    const Bits normal = (magnitude - kRebias + 0xfff + (magnitude >> 13 & 1)) >> 13;
    const Bits beyond = magnitude > kInfinity ? all(0x7e00) : all(0x7c00);
    const Bits half = magnitude < kSmallestNormal ? subnormal : (magnitude >= kBeyond ? beyond : normal);
    return (Vector)half | (bits >> 16 & 0x8000u);
  }
};

#endif

}  // namespace
}  // namespace hemiola::runtime::HEMIOLA_KERNELS
