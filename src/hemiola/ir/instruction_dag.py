"""InstructionDag: what every rank does, as a table of instructions in an order in which they may run.

Running the rows one after another, each send before its receive, is the dag's meaning. As the passes go on,
rows gain a channel, a threadblock and what they wait for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hemiola import _core
from hemiola.collectives import Collective, Meaning
from hemiola.ir.opcodes import TRAITS
from hemiola.ir.plan import Protocol, Rows

NO_OPERATION = _core.NO_ROW
"""In ``recv_operation`` and ``send_operation``: the instruction does not receive, or does not send."""

INSTRUCTION = np.dtype(_core.layout("Instruction"))
"""An instruction of one rank. ``recv_operation`` and ``send_operation`` say which operation's message it
takes or gives (a local one has its operation in ``recv_operation``); a fused one has both."""

FUSED = tuple(bytes([opcode]) for opcode, t in enumerate(TRAITS) if t.receives and t.sends)
"""The opcodes that both receive and send."""


@dataclass(frozen=True, slots=True)
class InstructionDag:
    """Instructions of all ranks, with what they are to achieve."""

    name: str
    collective: Collective
    protocol: Protocol
    instructions: Rows
    num_operations: int
    scratch_chunks: npt.NDArray[np.uint32]
    waits_first: npt.NDArray[np.uint32] | None = None
    """Row ``i`` waits for rows ``waits_on[waits_first[i]:waits_first[i + 1]]``; None before that pass."""
    waits_on: npt.NDArray[np.uint32] | None = None
    left_apart: int = 0
    """Receives and sends that only the number of slots kept from being fused."""
    lines: tuple[str, ...] = field(default=(), repr=False)
    min_bytes: int = 0
    max_bytes: int = 0

    @property
    def num_ranks(self) -> int:
        """How many ranks take part."""
        return self.collective.num_ranks

    @property
    def num_fused(self) -> int:
        """How many instructions both receive and send."""
        opcodes = self.instructions["opcode"].tobytes()
        return sum(map(opcodes.count, FUSED))

    def chunks(self) -> npt.NDArray[np.uint32]:
        """Input, output and scratch sizes of rank 0, then of rank 1, and so on."""
        return memory_chunks(self.collective, self.scratch_chunks)

    def kept_chunks(self) -> npt.NDArray[np.uint32]:
        """The promised ranges as first chunk, count, first chunk, ..., numbered as they lie in ``chunks``."""
        return kept_ranges(self.collective.meaning(), self.chunks())


def memory_chunks(collective: Collective, scratch: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Input, output and scratch sizes of rank 0, then of rank 1, and so on."""
    inputs, outputs = collective.stored_chunks()
    return np.stack([inputs, outputs, scratch.astype(np.int64)], axis=1).astype(np.uint32).reshape(-1)


def kept_ranges(meaning: Meaning, chunks: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """First chunk and count of all promised ranges, when buffers lie one after another."""
    base = np.cumsum(chunks, dtype=np.int64) - chunks
    promised = meaning.promised
    first: npt.NDArray[np.int64] = base[promised["rank"].astype(np.int64) * 3 + promised["buffer"]]
    ranges = np.stack([first + promised["index"], promised["count"].astype(np.int64)], axis=1)
    return np.asarray(ranges, np.uint32).reshape(-1)
