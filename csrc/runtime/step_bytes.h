// What steps do to bytes: where in a rank's memory the data of a step lies, and which kernel works on it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "runtime/call.h"
#include "runtime/geometry.h"
#include "runtime/kernels.h"
#include "runtime/part.h"

namespace hemiola::runtime {

class StepBytes {
 public:
  StepBytes(const Part& part, const CallShape& call, const Geometry& geometry)
      : call_(call), geometry_(geometry), kernels_(kernels(call.type, call.op)) {
    const uint64_t input = part.num_chunks[0], output = part.num_chunks[1];
    const auto bytes_of = [&](uint64_t chunks) {
      return chunks / part.shape.block_chunks * call.elements * geometry.element_bytes();
    };
    num_bytes_ = bytes_of(part.shape.alias_source >= 0 ? std::max(input, output) : input + output);
    for (const auto* lengths : {&call.input_lengths, &call.output_lengths})
      for (const uint64_t length : *lengths) num_bytes_ += length * geometry.element_bytes();
  }

  // Where each buffer begins, for the tiles of the data itself and for those of the remainder.
  std::byte* bases[2][3] = {};
  // Whether results that nobody reads again go past the caches.
  bool streams_results = false;

  // Of the caller's memory that is read or written.
  uint64_t num_bytes() const { return num_bytes_; }

  // Of the message that a step receives or sends.
  uint64_t message_bytes(const PartStep& step, uint64_t tile) const {
    const bool by_source = traits(step.opcode).reads_source;
    const uint32_t buffer = by_source ? step.src_buffer : step.dst_buffer;
    const uint64_t index = by_source ? step.src_index : step.dst_index;
    if (!Geometry::has_lengths(call_))
      return geometry_.length(buffer, index, tile) * step.count * geometry_.element_bytes();
    uint64_t elements = 0;
    for (uint32_t k = 0; k < step.count; ++k) elements += geometry_.length(buffer, index + k, tile);
    return elements * geometry_.element_bytes();
  }

  // Where the data of this rank begins that a step reads, or otherwise writes.
  const std::byte* own_data(const PartStep& step, uint64_t tile) const {
    return traits(step.opcode).reads_source ? address(step.src_buffer, step.src_index, tile)
                                            : address(step.dst_buffer, step.dst_index, tile);
  }

  // Does what a step does: `in` is the message that it receives, `out` where the one that it sends goes, which may be
  // the same place.
  void act(const PartStep& step, uint64_t tile, const std::byte* in, std::byte* out, bool stream_slot) const {
    if (step.opcode == Opcode::nop) return;
    const bool by_source = traits(step.opcode).reads_source;
    const bool whole = geometry_.is_contiguous(tile);
    const uint32_t pieces = whole ? 1 : step.count;
    for (uint32_t k = 0; k < pieces; ++k) {
      uint64_t length = by_source ? geometry_.length(step.src_buffer, step.src_index + k, tile)
                                  : geometry_.length(step.dst_buffer, step.dst_index + k, tile);
      if (whole) length *= step.count;
      const uint64_t num_bytes = length * geometry_.element_bytes();
      if (num_bytes == 0) continue;
      act_on(step, by_source ? address(step.src_buffer, step.src_index + k, tile) : nullptr,
             traits(step.opcode).writes_destination ? address(step.dst_buffer, step.dst_index + k, tile) : nullptr, in,
             out, length, num_bytes, stream_slot);
      if (in != nullptr) in += num_bytes;
      if (out != nullptr) out += num_bytes;
    }
  }

  // Whether two steps, the first of which copies a message into memory and the second of which sends, can be done at
  // once: both move as many bytes on end, through the caches, and the second one does not send what the first one
  // writes. Addresses decide, because buffers may be one memory.
  bool can_exchange(const PartStep& receive, uint64_t tile, const PartStep& send, uint64_t next_tile) const {
    if (streams_results && receive.stream) return false;
    const uint64_t num_bytes = message_bytes(receive, tile);
    if (message_bytes(send, next_tile) != num_bytes || !is_one_piece(receive, tile) || !is_one_piece(send, next_tile))
      return false;
    const std::byte *written = own_data(receive, tile), *sent = own_data(send, next_tile);
    return written + num_bytes <= sent || sent + num_bytes <= written;
  }

  // Does both: the message goes into memory, and the one that is sent next takes its place.
  void exchange(const PartStep& receive, uint64_t tile, const PartStep& send, uint64_t next_tile,
                std::byte* message) const {
    runtime::exchange(address(receive.dst_buffer, receive.dst_index, tile), message, own_data(send, next_tile),
                      message_bytes(receive, tile));
  }

 private:
  std::byte* address(uint32_t buffer, uint64_t index, uint64_t tile) const {
    return bases[geometry_.is_remainder(tile)][buffer] +
           geometry_.offset(buffer, index, tile) * geometry_.element_bytes();
  }

  // Whether the chunks of a step lie in memory without a gap.
  bool is_one_piece(const PartStep& step, uint64_t tile) const {
    return step.count == 1 || geometry_.is_contiguous(tile);
  }

  void act_on(const PartStep& step, const std::byte* source, std::byte* destination, const std::byte* in,
              std::byte* out, uint64_t length, uint64_t num_bytes, bool stream_slot) const {
    const bool stream = streams_results && step.stream;
    switch (step.opcode) {
      case Opcode::nop:
        break;
      case Opcode::s:
        copy(out, source, num_bytes, stream_slot);
        break;
      case Opcode::r:
        copy(destination, in, num_bytes, stream);
        break;
      case Opcode::rcs:
        copy_both(destination, out, in, num_bytes, stream_of(stream, stream_slot));
        break;
      case Opcode::rrs:
        kernels_.reduce(out, in, source, length, stream_slot);
        break;
      case Opcode::rrc:
        kernels_.reduce(destination, in, source, length, stream);
        break;
      case Opcode::rrcs:
        kernels_.reduce_both(destination, out, in, source, length, stream_of(stream, stream_slot));
        break;
      case Opcode::cpy:
        if (destination != source) copy(destination, source, num_bytes, stream);
        break;
      case Opcode::re:
        kernels_.reduce(destination, destination, source, length, stream);
        break;
    }
  }

  const CallShape& call_;
  const Geometry& geometry_;
  const Kernels& kernels_;
  uint64_t num_bytes_ = 0;
};

}  // namespace hemiola::runtime
