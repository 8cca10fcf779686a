// What a rank remembers of its calls, and which memory a call takes.
#include "runtime/flight_recorder.h"

#include <array>
#include <memory>
#include <string>

#include "runtime/call_memory.h"
#include "test/check.h"

namespace hemiola::test {
namespace {

using runtime::CallMemory, runtime::CallRecord, runtime::FlightRecorder;

TEST(the_latest_calls_are_kept_in_order) {
  FlightRecorder recorder;
  CHECK(recorder.latest().empty());
  const uint64_t num_calls = FlightRecorder::kNumRecords + 10;
  for (uint64_t call = 1; call <= num_calls; ++call) {
    const auto words = std::make_shared<const std::string>("call " + std::to_string(call));
    const uint64_t number = recorder.begin({call, static_cast<int64_t>(call * 100), std::nullopt, words});
    CHECK(!recorder.latest().back().end.has_value(), "it still runs");
    if (call % 3 != 0) recorder.end(number, static_cast<int64_t>(call * 100 + 7));
  }
  const auto records = recorder.latest();
  CHECK(records.size() == FlightRecorder::kNumRecords);
  for (size_t k = 0; k < records.size(); ++k) {
    const uint64_t call = num_calls - records.size() + 1 + k;
    CHECK(records[k].call == call && *records[k].description == "call " + std::to_string(call));
    CHECK(records[k].end.has_value() == (call % 3 != 0), "one that failed has no end");
    CHECK(!records[k].end || *records[k].end - records[k].begin == 7);
  }
}

bool is_refused(const CallMemory& memory, const std::byte* input, const std::byte* output) {
  try {
    memory.check(input, output);
  } catch (const std::invalid_argument&) {
    return true;
  }
  return false;
}

TEST(input_and_output_lie_to_each_other_as_the_call_says) {
  const std::array<std::byte, 64> bytes{};
  const std::byte* const here = bytes.data();
  const CallMemory apart{16, 16, {}};
  CHECK(!is_refused(apart, here, here + 16) && !is_refused(apart, here + 16, here));
  CHECK(is_refused(apart, here, here) && is_refused(apart, here, here + 15) && is_refused(apart, here + 15, here));
  const CallMemory same{16, 16, 0}, window{16, 48, 32}, reverse{48, 16, -16};
  CHECK(!is_refused(same, here, here) && is_refused(same, here, here + 1));
  CHECK(!is_refused(window, here + 32, here) && is_refused(window, here, here));
  CHECK(!is_refused(reverse, here, here + 16) && is_refused(reverse, here, here));
}

TEST(a_side_without_bytes_may_lie_anywhere) {
  const std::byte byte{};
  CHECK(!is_refused({0, 16, {}}, &byte, &byte) && !is_refused({16, 0, 0}, nullptr, &byte));
}

}  // namespace
}  // namespace hemiola::test
