// The kernels, written once in terms of vectors, for whatever instruction set the including file is compiled.
// That file defines HEMIOLA_KERNELS, the namespace of its build. Nothing here or in the two headers below may
// leave a function that the linker could share between builds: everything has internal linkage, and no inline
// function of the standard library is called.
#pragma once

#include "runtime/kernels_arithmetic.h"
#include "runtime/kernels_table.h"

namespace hemiola::runtime::HEMIOLA_KERNELS {
namespace {

// Below this, what was written is worth keeping in the caches, and the fence costs more than it saves.
constexpr size_t kLeastStreamBytes = 8 << 10;
// Below this, a C library moves bytes with vectors of its own.
constexpr size_t kLeastSweepBytes = 1 << 10;

// Large sweeps past the caches run in several tracks, a line of each in turn: memory then answers more requests at
// once than one track of a processor's prefetching makes. Caches do best in order. The distance between tracks stays
// off the multiples of a page, where all of them would fall into the same few places of the first cache.
constexpr size_t kNumTracks = 4, kLineBytes = 64, kLinesOfPage = 64, kSkewLines = 13;
constexpr size_t kLeastTracksBytes = 32 << 10;
static_assert(kLineBytes % kVectorBytes == 0);

// Sources: at(offset) is the result for the vector there, part(num_bytes) for less than one vector.
template <typename Type, typename Op>
struct Reduced {
  const unsigned char *a, *b;

  Vector at(size_t offset) const { return Type::template apply<Op>(load(a + offset), load(b + offset)); }
  Vector part(size_t num_bytes) const {
    return Type::template apply<Op>(load_part(a, num_bytes), load_part(b, num_bytes));
  }
};

template <typename Type>
struct Divided {
  const unsigned char* data;
  typename Type::Element divisor;

  Vector at(size_t offset) const { return Type::divide(load(data + offset), divisor); }
  Vector part(size_t num_bytes) const { return Type::divide(load_part(data, num_bytes), divisor); }
};

struct Same {
  const unsigned char* in;

  Vector at(size_t offset) const { return load(in + offset); }
  Vector part(size_t num_bytes) const { return load_part(in, num_bytes); }
};

// Destinations: `anchor` is the output whose vectors lie on boundaries, and which may be streamed.
struct One {
  unsigned char* out;

  unsigned char* anchor() const { return out; }
  void put(size_t offset, Vector v) const { store(out + offset, v); }
  void put_stream(size_t offset, Vector v) const { store_stream(out + offset, v); }
  void put_part(Vector v, size_t num_bytes) const { store_part(out, v, num_bytes); }
};

// Both outputs are streamed where kBoth, otherwise the anchor alone.
template <bool kBoth>
struct Two {
  unsigned char *first, *second;

  unsigned char* anchor() const { return first; }
  void put(size_t offset, Vector v) const {
    store(first + offset, v);
    store(second + offset, v);
  }
  void put_stream(size_t offset, Vector v) const {
    store_stream(first + offset, v);
    if constexpr (kBoth)
      store_stream(second + offset, v);
    else
      store(second + offset, v);
  }
  void put_part(Vector v, size_t num_bytes) const {
    store_part(first, v, num_bytes);
    store_part(second, v, num_bytes);
  }
};

// What is at `buffer`, which the vectors that are put were read from, goes to the output; what is at `source` takes its
// place.
struct Exchanged {
  unsigned char *out, *buffer;
  const unsigned char* source;

  unsigned char* anchor() const { return out; }
  void put(size_t offset, Vector v) const {
    const Vector next = load(source + offset);
    store(out + offset, v);
    store(buffer + offset, next);
  }
  void put_stream(size_t offset, Vector v) const { put(offset, v); }  // never asked for
  void put_part(Vector v, size_t num_bytes) const {
    store_part(out, v, num_bytes);
    store_part(buffer, load_part(source, num_bytes), num_bytes);
  }
};

// Calls put(offset) for the vectors of a large sweep, and returns where it stopped: less than four pages from the end.
template <typename Put>
size_t put_in_tracks(size_t at, size_t end, Put put) {
  if (end < at + kLeastTracksBytes) return at;
  size_t lines = (end - at) / (kNumTracks * kLineBytes);
  lines -= (lines + kSkewLines) % kLinesOfPage;
  const size_t track = lines * kLineBytes;
  for (size_t line = at; line < at + track; line += kLineBytes)
    for (size_t k = 0; k < kNumTracks; ++k)
      for (size_t v = 0; v < kLineBytes; v += kVectorBytes) put(line + k * track + v);
  return at + kNumTracks * track;
}

// Calls put(offset) for every vector from `at` on that begins before the end.
template <typename Put>
void put_in_order(size_t at, size_t end, Put put) {
  for (; at < end; at += kVectorBytes) put(at);
}

// The same in tracks where they are many, each from the beginning of a line of the anchor on.
template <typename Put>
void put_lines(const unsigned char* anchor, size_t at, size_t end, Put put) {
  const auto begins_line = [&] { return reinterpret_cast<uintptr_t>(anchor + at) % kLineBytes < kVectorBytes; };
  for (; at < end && !begins_line(); at += kVectorBytes) put(at);
  put_in_order(put_in_tracks(at, end, put), end, put);
}

// Gives every byte of the destination its value. From the first boundary of a vector in the anchor on, whole vectors
// are written. The first and the last vector overlap these; they are computed before anything is written and
// written last, so that an output may be an input. Where elements lie across the boundaries of vectors there is
// no such start, and nothing to stream.
template <typename Source, typename Destination>
void sweep(Source source, Destination to, size_t num_bytes, size_t size_of_element, bool stream) {
  if (num_bytes < kVectorBytes) {
    if (num_bytes > 0) to.put_part(source.part(num_bytes), num_bytes);
    return;
  }
  const size_t end = num_bytes - kVectorBytes;
  const Vector first = source.at(0), last = source.at(end);
  const size_t to_boundary = -reinterpret_cast<uintptr_t>(to.anchor()) % kVectorBytes;
  const bool aligns = to_boundary % size_of_element == 0;
  const size_t at = aligns ? to_boundary : 0;
  if (stream && aligns && num_bytes >= kLeastStreamBytes) {
    put_lines(to.anchor(), at, end, [&](size_t offset) { to.put_stream(offset, source.at(offset)); });
    fence_streams();
  } else {
    put_in_order(at, end, [&](size_t offset) { to.put(offset, source.at(offset)); });
  }
  to.put(0, first);
  to.put(end, last);
}

// The same for two outputs. Both can be streamed only where their vectors lie on boundaries together; where they
// do not, the second one is.
template <typename Source>
void sweep_both(Source source, unsigned char* out, unsigned char* also, size_t num_bytes, size_t size_of_element,
                Stream stream) {
  const bool together = (reinterpret_cast<uintptr_t>(out) - reinterpret_cast<uintptr_t>(also)) % kVectorBytes == 0;
  if (stream == Stream::both && together) {
    sweep(source, Two<true>{out, also}, num_bytes, size_of_element, true);
  } else if (stream == Stream::both || stream == Stream::also) {
    sweep(source, Two<false>{also, out}, num_bytes, size_of_element, true);
  } else {
    sweep(source, Two<false>{out, also}, num_bytes, size_of_element, stream == Stream::out);
  }
}

unsigned char* bytes(void* data) { return static_cast<unsigned char*>(data); }
const unsigned char* bytes(const void* data) { return static_cast<const unsigned char*>(data); }

// In place, what is written has just been read into the caches: streams would only throw it out.
template <typename Type, size_t kSize, typename Op>
void reduce(void* out, const void* a, const void* b, size_t count, bool stream) {
  const bool in_place = out == a || out == b;
  sweep(Reduced<Type, Op>{bytes(a), bytes(b)}, One{bytes(out)}, count * kSize, kSize, stream && !in_place);
}

template <typename Type, size_t kSize, typename Op>
void reduce_both(void* out, void* also, const void* a, const void* b, size_t count, Stream stream) {
  const auto streams = [stream, a, b](const void* output, Stream only) {
    return (stream == Stream::both || stream == only) && output != a && output != b;
  };
  const bool out_streams = streams(out, Stream::out), also_streams = streams(also, Stream::also);
  const Stream really = out_streams && also_streams ? Stream::both
                        : out_streams               ? Stream::out
                        : also_streams              ? Stream::also
                                                    : Stream::none;
  sweep_both(Reduced<Type, Op>{bytes(a), bytes(b)}, bytes(out), bytes(also), count * kSize, kSize, really);
}

template <typename Type, size_t kSize>
void divide(void* data, size_t count, int64_t divisor) {
  const auto by = static_cast<typename Type::Element>(divisor);
  sweep(Divided<Type>{bytes(data), by}, One{bytes(data)}, count * kSize, kSize, false);
}

// Integers are divided as `Wide` numbers, floating where these are exact enough for the whole part of every
// quotient, since processors divide vectors of these only.
template <typename T, typename Wide>
void divide_integers(void* data, size_t count, int64_t divisor) {
  typedef T Unaligned __attribute__((aligned(1), may_alias));
  auto* const elements = static_cast<Unaligned*>(data);
  const auto by = static_cast<Wide>(divisor);
  for (size_t i = 0; i < count; ++i) elements[i] = static_cast<T>(static_cast<Wide>(elements[i]) / by);
}

// Above a few kilobytes C libraries leave memcpy to `rep movsb`, which some processors carry out at a quarter of their
// speed where source and destination lie differently on their lines.
void copy(void* out, const void* in, size_t num_bytes, bool stream) {
  if (out == in || num_bytes == 0) return;
  if (num_bytes >= kLeastSweepBytes) {
    sweep(Same{bytes(in)}, One{bytes(out)}, num_bytes, 1, stream);
  } else {
    __builtin_memcpy(out, in, num_bytes);
  }
}

void copy_both(void* out, void* also, const void* in, size_t num_bytes, Stream stream) {
  sweep_both(Same{bytes(in)}, bytes(out), bytes(also), num_bytes, 1, stream);
}

void exchange(void* out, void* buffer, const void* source, size_t num_bytes) {
  sweep(Same{bytes(buffer)}, Exchanged{bytes(out), bytes(buffer), bytes(source)}, num_bytes, 1, false);
}

using Divide = void (*)(void*, size_t, int64_t);

template <typename Type, size_t kSize>
constexpr void fill(KernelTable& table, ElementType type, Divide divide) {
  Kernels* const row = table.kernels[static_cast<size_t>(type)];
#define OPERATOR(name, Op) \
  row[static_cast<size_t>(Operator::name)] = {reduce<Type, kSize, Op>, reduce_both<Type, kSize, Op>, divide};
#include "runtime/operators.def"
#undef OPERATOR
}

consteval KernelTable make_table(const char* name) {
  KernelTable made{.name = name, .kernels = {}, .copy = copy, .copy_both = copy_both, .exchange = exchange};
  fill<Widened<Half>, 2>(made, ElementType::f16, divide<Widened<Half>, 2>);
  fill<Widened<Brain>, 2>(made, ElementType::bf16, divide<Widened<Brain>, 2>);
  fill<Native<float>, 4>(made, ElementType::f32, divide<Native<float>, 4>);
  fill<Native<double>, 8>(made, ElementType::f64, divide<Native<double>, 8>);
  fill<Native<int8_t>, 1>(made, ElementType::i8, divide_integers<int8_t, float>);
  fill<Native<uint8_t>, 1>(made, ElementType::u8, divide_integers<uint8_t, float>);
  fill<Native<int32_t>, 4>(made, ElementType::i32, divide_integers<int32_t, double>);
  fill<Native<int64_t>, 8>(made, ElementType::i64, divide_integers<int64_t, int64_t>);
  return made;
}

consteval bool is_complete(const KernelTable& made) {
  for (const auto& row : made.kernels)
    for (const Kernels& kernels : row)
      if (kernels.reduce == nullptr) return false;
  return true;
}
#if !defined(__SANITIZE_ADDRESS__)  // with UBSan, GCC compares no address of a function at compile time
static_assert(is_complete(make_table("")), "an element type has no kernels");
#endif

}  // namespace

#define HEMIOLA_TEXT(name) #name
#define HEMIOLA_NAME_OF(macro) HEMIOLA_TEXT(macro)
constinit const KernelTable table = make_table(HEMIOLA_NAME_OF(HEMIOLA_KERNELS));

}  // namespace hemiola::runtime::HEMIOLA_KERNELS
