"""assign_threadblocks: which sequential worker of its rank runs an instruction."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hemiola import _core
from hemiola.compiler.options import CompileOptions
from hemiola.errors import ThreadblockError
from hemiola.ir.instruction_dag import INSTRUCTION, InstructionDag
from hemiola.ir.rows import as_bytes, from_bytes


@dataclass(frozen=True, slots=True)
class AssignThreadblocks:
    """Each end of a connection gets one threadblock; fused instructions make two ends share one.

    A threadblock has one peer on each side. Where fused instructions of a channel go from one peer to
    several, or from several to one, the most frequent pair stays fused and the others are split again.
    Local instructions go where their data was made. What the program gave by hand is taken as it is, and
    refused where no runtime could run it. Turned off, nothing shares a threadblock, so nothing is fused.
    """

    name: str = "assign_threadblocks"

    def apply(self, dag: InstructionDag, options: CompileOptions) -> InstructionDag:
        """Pair connections, then number threadblocks; share more where the limits ask for it."""
        rows = _core.pair_connections(as_bytes(dag.instructions))
        made, most, most_per_channel = _number(dag, rows, merge=False)
        limits = ((most, options.max_threadblocks), (most_per_channel, options.max_threadblocks_per_channel))
        if any(limit is not None and found > limit for found, limit in limits):
            made, _, _ = _number(dag, rows, merge=True)
        return made

    def skip(self, dag: InstructionDag, options: CompileOptions) -> InstructionDag:
        """One threadblock per end of a connection."""
        return _number(dag, _core.unfuse(as_bytes(dag.instructions)), merge=False)[0]


def _number(
    dag: InstructionDag, rows: npt.NDArray[np.uint8], *, merge: bool
) -> tuple[InstructionDag, int, int]:
    made = _core.assign_threadblocks(rows, dag.chunks(), merge)
    if made.conflict is not None:
        raise _explain(dag, made.conflict)
    numbered = replace(dag, instructions=from_bytes(made.instructions, INSTRUCTION))
    return numbered, made.most, made.most_per_channel


def _explain(dag: InstructionDag, conflict: _core.ThreadblockConflict) -> ThreadblockError:
    lines = (conflict.line, conflict.other_line)
    here, there = (dag.lines[n - 1] if n else "an operation" for n in lines)
    return ThreadblockError(
        f"{here}: threadblock {conflict.threadblock} of rank {conflict.rank} would have {conflict.what} "
        f"(see also {there}); a threadblock has one channel and one peer on each side, and a connection one "
        "threadblock on each side: give another sendtb, recvtb or ch, or leave them out"
    )
