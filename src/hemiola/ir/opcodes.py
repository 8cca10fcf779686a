"""What a step does: the nine opcodes, one row each. The same table is ``csrc/opcodes.def`` for C++."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Opcode(IntEnum):
    """The type of a step, with the name that MSCCL's XML gives it."""

    NOP = 0
    S = 1
    R = 2
    RCS = 3
    RRS = 4
    RRC = 5
    RRCS = 6
    CPY = 7
    RE = 8


@dataclass(frozen=True, slots=True)
class OpcodeTraits:
    """What an opcode reads, writes, takes from and gives to the wire."""

    name: str
    receives: bool
    reads_source: bool
    reads_destination: bool
    writes_destination: bool
    sends: bool
    meaning: str

    @property
    def reduces(self) -> bool:
        """Whether two values are added."""
        return (self.receives and self.reads_source) or self.reads_destination


TRAITS: tuple[OpcodeTraits, ...] = (
    #             name   recv   rsrc   rdst   wdst   send
    OpcodeTraits("nop", False, False, False, False, False, "only waits for its dependencies"),
    OpcodeTraits("s", False, True, False, False, True, "send source"),
    OpcodeTraits("r", True, False, False, True, False, "receive into destination"),
    OpcodeTraits("rcs", True, False, False, True, True, "receive into destination and send it on"),
    OpcodeTraits("rrs", True, True, False, False, True, "receive, add source, send the sum on"),
    OpcodeTraits("rrc", True, True, False, True, False, "receive, add source, store in destination"),
    OpcodeTraits("rrcs", True, True, False, True, True, "receive, add source, store and send on"),
    OpcodeTraits("cpy", False, True, False, True, False, "copy source to destination"),
    OpcodeTraits("re", False, True, True, True, False, "add source into destination"),
)
"""Indexed by Opcode."""

OPCODE_BY_NAME = {traits.name: Opcode(code) for code, traits in enumerate(TRAITS)}
