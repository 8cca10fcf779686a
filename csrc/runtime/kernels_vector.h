// One vector register: its lanes, and how it gets from and to memory. See kernels_body.h for who includes this.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace hemiola::runtime::HEMIOLA_KERNELS {
namespace {

#ifdef __AVX2__
constexpr size_t kVectorBytes = 32;
#else
constexpr size_t kVectorBytes = 16;
#endif

template <typename T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kVectorBytes)));
};
template <typename T>
using Lanes = typename VectorOf<T>::Type;

// What memory holds, whatever its type; casts to other lanes keep the bits.
using Vector = Lanes<uint32_t>;

inline Vector load(const unsigned char* from) {
  Vector v;
  __builtin_memcpy(&v, from, kVectorBytes);
  return v;
}

// Less than a vector; the other lanes are zero.
inline Vector load_part(const unsigned char* from, size_t num_bytes) {
  Vector v = {};
  __builtin_memcpy(&v, from, num_bytes);
  return v;
}

inline void store(unsigned char* to, Vector v) { __builtin_memcpy(to, &v, kVectorBytes); }

inline void store_part(unsigned char* to, Vector v, size_t num_bytes) { __builtin_memcpy(to, &v, num_bytes); }

// Past the caches, to an aligned place; other threads see it in order only after fence_streams().
inline void store_stream(unsigned char* to, Vector v) {
#if defined(__AVX2__)
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), (__m256i)v);
#elif defined(__SSE2__)
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), (__m128i)v);
#else
  store(to, v);
#endif
}

inline void fence_streams() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

}  // namespace
}  // namespace hemiola::runtime::HEMIOLA_KERNELS
