// The rows of the tables that Python and C++ share, and the opcodes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hemiola {

enum class Opcode : uint8_t {
#define OPCODE(name, ...) name,
#include "opcodes.def"
#undef OPCODE
};

struct OpcodeTraits {
  const char* name;
  bool receives, reads_source, reads_destination, writes_destination, sends;
  const char* meaning;

  // Whether two values are added.
  constexpr bool reduces() const { return (receives && reads_source) || reads_destination; }
};

inline constexpr std::array kOpcodeTraits = {
#define OPCODE(name, ...) OpcodeTraits{#name, __VA_ARGS__},
#include "opcodes.def"
#undef OPCODE
};

inline constexpr const OpcodeTraits& traits(Opcode opcode) { return kOpcodeTraits[static_cast<size_t>(opcode)]; }

// What an operation does: destination = source, or destination += source.
enum class Kind : uint16_t { copy, reduce };

inline constexpr uint32_t kScratch = 2;
inline constexpr int32_t kAutomatic = -1;
inline constexpr int32_t kNoPeer = -1;
inline constexpr uint32_t kNone = 0xffffffff;

#define HEMIOLA_ROWS "tables.def"
#include "row_structs.inc"

}  // namespace hemiola
