// Every build of the kernels against one element at a time: same bits, wherever the elements lie.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "runtime/kernels_table.h"
#include "test/check.h"
#include "test/elements.h"

namespace hemiola::test {
namespace {

using runtime::ElementType, runtime::KernelTable, runtime::Kernels, runtime::Operator, runtime::Stream;
using Bytes = std::vector<unsigned char>;

constexpr Operator kOperators[] = {Operator::sum, Operator::prod, Operator::min, Operator::max};
constexpr size_t kLongestVector = 64, kManySizes = 100;
constexpr size_t kStreamed = (64 << 10) + 24;   // bytes; enough to stream
constexpr size_t kTracks = 32 << 10;            // bytes before the last vector from which a sweep runs in tracks
constexpr size_t kLongerTracks = 4 * 179 * 64;  // the same where a track grows from 115 to 179 lines

// Calls visit<T>(type) for the element types, T being how an element is stored.
template <typename Visit>
void for_each_type(Visit visit) {
  visit.template operator()<F16>(ElementType::f16);
  visit.template operator()<Bf16>(ElementType::bf16);
  visit.template operator()<float>(ElementType::f32);
  visit.template operator()<double>(ElementType::f64);
  visit.template operator()<int8_t>(ElementType::i8);
  visit.template operator()<uint8_t>(ElementType::u8);
  visit.template operator()<int32_t>(ElementType::i32);
  visit.template operator()<int64_t>(ElementType::i64);
}

const Kernels& kernels_of(const KernelTable& table, ElementType type, Operator op) {
  return table.kernels[static_cast<size_t>(type)][static_cast<size_t>(op)];
}

std::string describe(const KernelTable& table, ElementType type, Operator op) {
  return std::string(table.name) + ", type " + std::to_string(static_cast<int>(type)) + ", operator " +
         std::to_string(static_cast<int>(op));
}

template <typename T>
Bytes to_bytes(const std::vector<T>& elements) {
  Bytes bytes(elements.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

// Any bits: among floating numbers also NaNs, infinities and subnormals.
template <typename T>
std::vector<T> random_elements(size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<T> elements(count);
  for (T& element : elements) {
    const uint64_t bits = random();
    std::memcpy(&element, &bits, sizeof(T));
  }
  return elements;
}

template <typename T>
bool equals(const std::vector<T>& elements, const Bytes& bytes) {
  return elements.size() * sizeof(T) == bytes.size() && std::memcmp(elements.data(), bytes.data(), bytes.size()) == 0;
}

template <typename T>
Bytes expected(Operator op, const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<T> results(a.size());
  std::transform(a.begin(), a.end(), b.begin(), results.begin(), [&](T x, T y) { return reduced(op, x, y); });
  return to_bytes(results);
}

// Bytes at a chosen distance from a multiple of kLongestVector, with bytes around them that must not change.
class Placed {
 public:
  Placed(const Bytes& contents, size_t misalignment)
      : size_(contents.size()), memory_(contents.size() + 4 * kLongestVector, kGuard) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data()) + kLongestVector;
    start_ = kLongestVector + (-address % kLongestVector) + misalignment % kLongestVector;
    if (size_ > 0) std::memcpy(data(), contents.data(), size_);
  }
  unsigned char* data() { return memory_.data() + start_; }
  bool holds(const Bytes& contents) const {
    const auto is_guard = [](unsigned char byte) { return byte == kGuard; };
    const auto begin = memory_.begin() + static_cast<std::ptrdiff_t>(start_);
    const auto end = begin + static_cast<std::ptrdiff_t>(size_);
    return std::equal(begin, end, contents.begin(), contents.end()) && std::all_of(memory_.begin(), begin, is_guard) &&
           std::all_of(end, memory_.end(), is_guard);
  }

 private:
  static constexpr unsigned char kGuard = 0xa5;
  size_t size_, start_;
  Bytes memory_;
};

struct Reduction {
  const KernelTable& table;
  ElementType type;
  Operator op;
  Bytes a, b, result;

  size_t count() const { return a.size() / runtime::element_size(type); }
  const Kernels& kernels() const { return kernels_of(table, type, op); }
};

// What to try where a result goes to two places.
std::vector<Stream> streams_of_both(bool stream) {
  return stream ? std::vector{Stream::out, Stream::also, Stream::both} : std::vector{Stream::none};
}

// Runs a reduction with its arrays in these places, and with every output in place of every input.
void check_reduction(const Reduction& r, size_t out_at, size_t a_at, size_t b_at, bool stream) {
  const auto check = [&](const Placed& output, const char* which) {
    CHECK(output.holds(r.result), describe(r.table, r.type, r.op), ", ", r.count(), " elements, ", which, ", out + ",
          out_at, ", a + ", a_at, ", b + ", b_at, ", stream ", stream);
  };
  const Bytes blank(r.a.size(), 0x5a);
  Placed a(r.a, a_at), b(r.b, b_at), out(blank, out_at);
  r.kernels().reduce(out.data(), a.data(), b.data(), r.count(), stream);
  check(out, "apart");
  CHECK(a.holds(r.a) && b.holds(r.b));
  Placed in_a(r.a, out_at), in_b(r.b, out_at);
  r.kernels().reduce(in_a.data(), in_a.data(), b.data(), r.count(), stream);
  check(in_a, "out is a");
  r.kernels().reduce(in_b.data(), a.data(), in_b.data(), r.count(), stream);
  check(in_b, "out is b");

  for (const Stream both : streams_of_both(stream)) {
    Placed out_of_both(blank, out_at), also(blank, a_at + b_at);
    r.kernels().reduce_both(out_of_both.data(), also.data(), a.data(), b.data(), r.count(), both);
    check(out_of_both, "out of both");
    check(also, "also");
    Placed both_a(r.a, out_at), both_b(r.b, b_at);
    r.kernels().reduce_both(both_a.data(), both_b.data(), both_a.data(), both_b.data(), r.count(), both);
    check(both_a, "out is a of both");
    check(both_b, "also is b");
    Placed also_a(r.a, a_at), apart(blank, out_at);
    r.kernels().reduce_both(apart.data(), also_a.data(), also_a.data(), b.data(), r.count(), both);
    check(apart, "out, also is a");
    check(also_a, "also is a");
  }
}

// Calls check(reduction) for every build, type and operator, on `count_of(size of an element)` random elements.
template <typename CountOf, typename Check>
void for_each_reduction(CountOf count_of, Check check) {
  for_each_type([&]<typename T>(ElementType type) {
    const auto a = random_elements<T>(count_of(sizeof(T)), 1), b = random_elements<T>(count_of(sizeof(T)), 2);
    for (const Operator op : kOperators) {
      const Bytes result = expected(op, a, b);
      for (const KernelTable* table : runtime::kernel_tables())
        check(Reduction{*table, type, op, to_bytes(a), to_bytes(b), result});
    }
  });
}

TEST(every_small_size) {
  for (size_t count = 0; count <= kManySizes; ++count)
    for_each_reduction([&](size_t) { return count; },
                       [&](const Reduction& r) {
                         check_reduction(r, 0, 0, 0, false);
                         check_reduction(r, count, 3 * count + 1, 5 * count + 2, true);
                       });
}

TEST(every_misalignment) {
  for (const size_t num_bytes : {size_t{8}, size_t{200}, kStreamed})
    for_each_reduction([&](size_t size) { return num_bytes / size; },
                       [&](const Reduction& r) {
                         const size_t stride = num_bytes == kStreamed ? 7 : 1;
                         for (size_t at = 0; at < kLongestVector; at += stride) {
                           check_reduction(r, at, 0, 0, true);
                           check_reduction(r, 0, at, 5 * at, false);
                         }
                       });
}

TEST(streams_of_aligned_elements) {
  for (const size_t num_bytes : {size_t{16 << 10} - 8, size_t{16 << 10}, kStreamed})
    for_each_reduction([&](size_t size) { return num_bytes / size; },
                       [&](const Reduction& r) {
                         for (const size_t at : {0, 8, 16, 24, 32, 56})
                           for (const bool stream : {false, true}) check_reduction(r, at, 2 * at, 3 * at, stream);
                       });
}

// Where a sweep begins to run in tracks, and where the tracks grow by a page, for vectors of 16 and of 32 bytes.
TEST(sweeps_in_tracks) {
  for (const size_t num_bytes : {kTracks + 8, kTracks + 16, kTracks + 24, kTracks + 32, kTracks + 40, kLongerTracks + 8,
                                 kLongerTracks + 16, kLongerTracks + 32, kLongerTracks + 40, 3 * kTracks + 200})
    for_each_reduction([&](size_t size) { return num_bytes / size; },
                       [&](const Reduction& r) {
                         for (const bool stream : {false, true}) {
                           check_reduction(r, 0, 0, 0, stream);
                           check_reduction(r, 24, 1, 40, stream);
                           check_reduction(r, 5, 64, 0, stream);
                         }
                       });
}

// All bit patterns on one side; on the other the patterns where something changes, and random ones.
template <typename T>
void check_all_patterns(ElementType type) {
  constexpr size_t kPatterns = 1 << 16, kNumRandom = 24;
  constexpr int kSmallestNormal = 1 << (T::kSignificand - 1), kOne = T::kBias << (T::kSignificand - 1);
  std::vector<uint16_t> others;
  for (const int edge : {0, kSmallestNormal, kOne, int{T::kInfinity}, int{T::kNan}})
    for (const int bits : {edge - 1, edge, edge + 1, (edge - 1) ^ 0x8000, edge ^ 0x8000, (edge + 1) ^ 0x8000})
      others.push_back(static_cast<uint16_t>(bits));
  std::mt19937 random(3);
  for (size_t k = 0; k < kNumRandom; ++k) others.push_back(static_cast<uint16_t>(random()));

  std::vector<T> a(kPatterns), b(kPatterns);
  for (size_t k = 0; k < kPatterns; ++k) a[k] = {static_cast<uint16_t>(k)};
  for (const uint16_t other : others) {
    // Half of the others run along with `a`, so that ties and cancellation are frequent.
    for (size_t k = 0; k < kPatterns; ++k) b[k] = {static_cast<uint16_t>(k % 2 ? other : other + k)};
    for (const Operator op : kOperators) {
      const Bytes result = expected(op, a, b);
      for (const KernelTable* table : runtime::kernel_tables()) {
        const auto reduce = kernels_of(*table, type, op).reduce;
        std::vector<T> forth(kPatterns), back(kPatterns);
        reduce(forth.data(), a.data(), b.data(), kPatterns, false);
        reduce(back.data(), b.data(), a.data(), kPatterns, false);
        CHECK(equals(forth, result), describe(*table, type, op), ", other ", other);
        CHECK(equals(back, result), describe(*table, type, op), " the other way round, other ", other);
      }
    }
  }
}

TEST(every_pattern_of_f16) { check_all_patterns<F16>(ElementType::f16); }
TEST(every_pattern_of_bf16) { check_all_patterns<Bf16>(ElementType::bf16); }

template <typename T, typename Bits>
void check_special_pairs(ElementType type, const std::vector<Bits>& patterns) {
  std::vector<T> a, b;
  for (const Bits x : patterns)
    for (const Bits y : patterns) a.push_back(std::bit_cast<T>(x)), b.push_back(std::bit_cast<T>(y));
  for (const Operator op : kOperators)
    for (const KernelTable* table : runtime::kernel_tables()) {
      std::vector<T> results(a.size());
      kernels_of(*table, type, op).reduce(results.data(), a.data(), b.data(), a.size(), false);
      CHECK(equals(results, expected(op, a, b)), describe(*table, type, op));
    }
}

TEST(nans_zeros_infinities_and_subnormals) {
  check_special_pairs<float, uint32_t>(
      ElementType::f32, {0, 0x8000'0000, 1, 0x8000'0001, 0x0080'0000, 0x7f7f'ffff, 0x7f80'0000, 0xff80'0000,
                         0x7fc0'0000, 0xffc0'0000, 0x7fa0'0001, 0xffff'ffff, 0x3f80'0000, 0xbf80'0000});
  check_special_pairs<double, uint64_t>(
      ElementType::f64, {0, 0x8000'0000'0000'0000, 1, 0x8000'0000'0000'0001, 0x0010'0000'0000'0000,
                         0x7fef'ffff'ffff'ffff, 0x7ff0'0000'0000'0000, 0xfff0'0000'0000'0000, 0x7ff8'0000'0000'0000,
                         0xfff8'0000'0000'0000, 0x7ff4'0000'0000'0001, 0xffff'ffff'ffff'ffff, 0x3ff0'0000'0000'0000});
}

TEST(zeros_are_ordered_and_nans_alike) {
  for (const KernelTable* table : runtime::kernel_tables()) {
    const float zeros[] = {-0.0f, 0.0f}, turned[] = {0.0f, -0.0f};
    uint32_t bits[2];
    kernels_of(*table, ElementType::f32, Operator::min).reduce(bits, zeros, turned, 2, false);
    CHECK(bits[0] == 0x8000'0000 && bits[1] == 0x8000'0000, table->name);
    kernels_of(*table, ElementType::f32, Operator::max).reduce(bits, zeros, turned, 2, false);
    CHECK(bits[0] == 0 && bits[1] == 0, table->name);
    const uint32_t nans[] = {0xffc0'1234, 0x3f80'0000}, others[] = {0x7fa0'0001, 0xffff'ffff};
    for (const Operator op : kOperators) {
      kernels_of(*table, ElementType::f32, op).reduce(bits, nans, others, 2, false);
      CHECK(bits[0] == 0x7fc0'0000 && bits[1] == 0x7fc0'0000, describe(*table, ElementType::f32, op));
    }
  }
}

template <typename T>
std::vector<T> dividends() {
  if constexpr (sizeof(T) <= 2) {
    std::vector<T> all(size_t{1} << (8 * sizeof(T)));
    for (size_t k = 0; k < all.size(); ++k) std::memcpy(&all[k], &k, sizeof(T));
    return all;
  } else {
    auto some = random_elements<T>(1000, 4);
    using Limits = std::numeric_limits<T>;
    for (const T edge : {Limits::lowest(), Limits::min(), Limits::max()})
      for (const int step : {-1, 0, 1}) some.push_back(combine<T>(Operator::sum, edge, static_cast<T>(step)));
    return some;
  }
}

TEST(divisions) {
  for_each_type([]<typename T>(ElementType type) {
    const std::vector<T> whole = dividends<T>();
    for (const int64_t divisor : {1, 2, 3, 5, 7, 10, 48, 127, 128, 129, 255, 256, 1000, 2047, 3001, 4093, 4095, 4096})
      for (const size_t count : {whole.size(), size_t{3}})
        for (const KernelTable* table : runtime::kernel_tables()) {
          const std::vector<T> elements(whole.end() - static_cast<std::ptrdiff_t>(count), whole.end());
          std::vector<T> quotients(count);
          std::transform(elements.begin(), elements.end(), quotients.begin(), [&](T x) { return divided(x, divisor); });
          for (const size_t at : {0, 1, 8}) {
            Placed data(to_bytes(elements), at);
            kernels_of(*table, type, Operator::sum).divide(data.data(), count, divisor);
            CHECK(data.holds(to_bytes(quotients)), describe(*table, type, Operator::sum), ", divisor ", divisor);
          }
        }
  });
}

TEST(integers_divided_by_more_than_they_can_be) {
  for (const KernelTable* table : runtime::kernel_tables())
    for (const int64_t divisor : {int64_t{1} << 31, (int64_t{1} << 31) + 1, int64_t{1} << 40, INT64_MAX}) {
      int32_t data[] = {INT32_MIN, INT32_MAX, 0};
      kernels_of(*table, ElementType::i32, Operator::max).divide(data, 3, divisor);
      CHECK(data[0] == (divisor == int64_t{1} << 31 ? -1 : 0), table->name, ", ", divisor);
      CHECK(data[1] == 0 && data[2] == 0, table->name, ", ", divisor);
    }
}

void check_copies(const KernelTable& table, const Bytes& contents, size_t out_at, size_t also_at, size_t in_at,
                  bool stream) {
  const Bytes blank(contents.size(), 0x5a);
  Placed in(contents, in_at), out(blank, out_at);
  table.copy(out.data(), in.data(), contents.size(), stream);
  CHECK(out.holds(contents) && in.holds(contents), table.name, ", ", contents.size(), " bytes, stream ", stream);
  table.copy(in.data(), in.data(), contents.size(), stream);
  CHECK(in.holds(contents));
  for (const Stream both : streams_of_both(stream)) {
    Placed first(blank, out_at), second(blank, also_at);
    table.copy_both(first.data(), second.data(), in.data(), contents.size(), both);
    CHECK(first.holds(contents) && second.holds(contents), table.name, ", ", contents.size(), " bytes, stream ",
          stream);
    Placed elsewhere(blank, also_at);
    table.copy_both(in.data(), elsewhere.data(), in.data(), contents.size(), both);
    CHECK(in.holds(contents) && elsewhere.holds(contents));
    Placed third(blank, also_at);
    table.copy_both(third.data(), in.data(), in.data(), contents.size(), both);
    CHECK(in.holds(contents) && third.holds(contents));
  }
}

void check_exchange(const KernelTable& table, size_t num_bytes, size_t out_at, size_t buffer_at, size_t source_at) {
  const Bytes came = random_elements<uint8_t>(num_bytes, 8), goes = random_elements<uint8_t>(num_bytes, 9);
  Placed out(Bytes(num_bytes, 0x5a), out_at), buffer(came, buffer_at), source(goes, source_at);
  table.exchange(out.data(), buffer.data(), source.data(), num_bytes);
  CHECK(out.holds(came) && buffer.holds(goes) && source.holds(goes), table.name, ", ", num_bytes, " bytes");
}

TEST(exchanges) {
  for (const KernelTable* table : runtime::kernel_tables()) {
    for (size_t num_bytes = 0; num_bytes <= 3 * kManySizes; ++num_bytes)
      check_exchange(*table, num_bytes, num_bytes, 3 * num_bytes, 7 * num_bytes);
    for (size_t at = 0; at < kLongestVector; ++at) {
      check_exchange(*table, kStreamed + at, at, 0, 0);
      check_exchange(*table, kStreamed + at, 0, at, 3 * at);
    }
  }
}

TEST(copies) {
  for (const KernelTable* table : runtime::kernel_tables())
    for (const bool stream : {false, true}) {
      for (size_t num_bytes = 0; num_bytes <= 3 * kManySizes; ++num_bytes)
        check_copies(*table, random_elements<uint8_t>(num_bytes, 5), num_bytes, 3 * num_bytes, 7 * num_bytes, stream);
      for (size_t at = 0; at < kLongestVector; ++at) {
        const Bytes contents = random_elements<uint8_t>(kStreamed + at, 6);
        check_copies(*table, contents, at, 0, 0, stream);
        check_copies(*table, contents, 0, at, 3 * at, stream);
      }
    }
}

TEST(copies_in_tracks) {
  for (const KernelTable* table : runtime::kernel_tables())
    for (size_t num_bytes = kTracks - 40; num_bytes < kTracks + 200; ++num_bytes)
      for (const bool stream : {false, true})
        check_copies(*table, random_elements<uint8_t>(num_bytes, 7), num_bytes % 67, 3, num_bytes % 5, stream);
}

// Bytes that begin where a page begins or end where one ends, with pages around them that no one may touch.
class Fenced {
 public:
  Fenced(const Bytes& contents, bool at_end)
      : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))), inside_((contents.size() / page_ + 1) * page_) {
    void* const mapped = mmap(nullptr, inside_ + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED);
    start_ = static_cast<unsigned char*>(mapped);
    CHECK(mprotect(start_ + page_, inside_, PROT_READ | PROT_WRITE) == 0);
    data_ = start_ + page_ + (at_end ? inside_ - contents.size() : 0);
    if (!contents.empty()) std::memcpy(data_, contents.data(), contents.size());
  }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  ~Fenced() { munmap(start_, inside_ + 2 * page_); }
  unsigned char* data() { return data_; }

 private:
  size_t page_, inside_;
  unsigned char *start_, *data_;
};

TEST(nothing_outside_the_arrays_is_touched) {
  for (const size_t num_bytes : {size_t{0}, size_t{8}, size_t{24}, size_t{40}, size_t{64}, size_t{72}, kStreamed})
    for_each_reduction([&](size_t size) { return num_bytes / size; },
                       [&](const Reduction& r) {
                         for (const bool at_end : {false, true}) {
                           Fenced a(r.a, at_end), b(r.b, at_end), out(r.a, at_end), also(r.a, at_end);
                           r.kernels().reduce_both(out.data(), also.data(), a.data(), b.data(), r.count(),
                                                   Stream::both);
                           r.kernels().reduce(out.data(), a.data(), b.data(), r.count(), true);
                           CHECK(std::memcmp(out.data(), also.data(), num_bytes) == 0);
                           r.kernels().divide(out.data(), r.count(), 3);
                           r.table.copy_both(out.data(), also.data(), a.data(), num_bytes, Stream::both);
                           r.table.copy(out.data(), b.data(), num_bytes, true);
                           r.table.exchange(out.data(), also.data(), a.data(), num_bytes);
                         }
                       });
}

TEST(the_fastest_build_is_used) {
  const KernelTable& fastest = *runtime::kernel_tables().front();
  for_each_type([&]<typename T>(ElementType type) {
    CHECK(runtime::element_size(type) == sizeof(T));
    for (const Operator op : kOperators) CHECK(&runtime::kernels(type, op) == &kernels_of(fastest, type, op));
  });
  CHECK(runtime::kernel_tables().back() == &runtime::portable::table);
}

}  // namespace
}  // namespace hemiola::test
