"""What a step does: the nine opcodes, one row each. The table is ``csrc/opcodes.def``, for Python as for C++."""

from __future__ import annotations

from hemiola import _core
from hemiola._core import Opcode as Opcode
from hemiola._core import OpcodeTraits as OpcodeTraits

TRAITS: tuple[OpcodeTraits, ...] = tuple(_core.opcode_traits())
"""Indexed by Opcode."""

OPCODE_BY_NAME = {traits.name: Opcode(code) for code, traits in enumerate(TRAITS)}
