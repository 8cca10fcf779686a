"""ChunkDag: a traced program as a table of operations on chunks, in an order in which they may run.

The edges are implied by the order: an operation depends on the earlier ones that touch the same chunk
when one of the two writes it. Running the rows one after another is the program's meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hemiola import _core
from hemiola.collectives import Collective
from hemiola.ir.plan import Protocol, Rows

COPY, REDUCE = int(_core.OperationKind.COPY), int(_core.OperationKind.REDUCE)

AUTOMATIC = _core.AUTOMATIC
"""In ``channel``, ``send_threadblock`` and ``recv_threadblock``: the compiler chooses."""

OPERATION = np.dtype(_core.layout("Operation"))
"""COPY: destination = source. REDUCE: destination += source. ``parallel`` is the number of instances that
the operation is to be cut into; after replication it is done and ``instance`` says which one this is."""


MOVE = np.dtype(_core.layout("Move"))
"""An operation before it is recorded: buffers have the numbers of the program, and nothing has been checked."""


@dataclass(frozen=True, slots=True)
class ChunkDag:
    """Operations on chunks, with what they are to achieve."""

    name: str
    collective: Collective
    protocol: Protocol
    operations: Rows
    scratch_chunks: npt.NDArray[np.uint32]
    """Per rank."""
    lines: tuple[str, ...] = field(default=(), repr=False)
    min_bytes: int = 0
    max_bytes: int = 0

    @property
    def num_ranks(self) -> int:
        """How many ranks take part."""
        return self.collective.num_ranks
