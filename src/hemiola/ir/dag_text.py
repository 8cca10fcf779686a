"""The levels above the plan as text for people and for golden files, a line per row.

0 copy    input[0] of rank 0 -> tmp[0] of rank 1
1 rank 1  tb 0  ch 0  rrcs  input[2] + msg from 0 -> input[2], send to 2  after 0
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hemiola.collectives import Buffer
from hemiola.ir.chunk_dag import AUTOMATIC, REDUCE, ChunkDag
from hemiola.ir.instruction_dag import InstructionDag
from hemiola.ir.opcodes import TRAITS
from hemiola.ir.plan import Plan, Rows
from hemiola.ir.text import plan_text

_NAMES = [buffer.name.lower() for buffer in Buffer]


def level_text(level: ChunkDag | InstructionDag | Plan) -> str:
    """Any level as text."""
    if isinstance(level, ChunkDag):
        return "\n".join(_operation_lines(level.operations))
    if isinstance(level, InstructionDag):
        return "\n".join(_instruction_lines(level))
    return plan_text(level)


def _operation_lines(rows: Rows) -> Iterator[str]:
    for number, row in enumerate(rows):
        source = _chunks(row["src_buffer"], row["src_index"], row["count"], row["src_rank"])
        target = _chunks(row["dst_buffer"], row["dst_index"], row["count"], row["dst_rank"])
        verb = "reduce" if row["kind"] == REDUCE else "copy"
        extras = [
            f"{name} {row[field]}"
            for name, field in (
                ("ch", "channel"),
                ("sendtb", "send_threadblock"),
                ("recvtb", "recv_threadblock"),
            )
            if row[field] != AUTOMATIC
        ]
        if row["parallel"] > 1:
            extras.append(f"in {row['parallel']} instances")
        if row["instance"]:
            extras.append(f"instance {row['instance']}")
        yield " ".join([f"{number:3} {verb:6} {source} -> {target}", *extras])


def _chunks(buffer: int, index: int, count: int, rank: int | None = None) -> str:
    span = f"{index}" if count == 1 else f"{index}:{index + count}"
    return f"{_NAMES[buffer]}[{span}]" + (f" of rank {rank}" if rank is not None else "")


def _instruction_lines(dag: InstructionDag) -> Iterator[str]:
    for number, row in enumerate(dag.instructions):
        words = [f"{number:3} rank {row['rank']}"]
        words += [f"tb {row['threadblock']}"] if row["threadblock"] != AUTOMATIC else []
        words += [f"ch {row['channel']}"] if row["channel"] != AUTOMATIC else []
        words += [TRAITS[row["opcode"]].name, _movement(row)]
        if dag.waits_first is not None and dag.waits_on is not None:
            waits = dag.waits_on[dag.waits_first[number] : dag.waits_first[number + 1]]
            words += [f"after {', '.join(str(wait) for wait in waits)}"] if len(waits) else []
        yield "  ".join(words)


def _movement(row: np.void) -> str:
    traits = TRAITS[int(row["opcode"])]
    operands = [_chunks(row["src_buffer"], row["src_index"], row["count"])] if traits.reads_source else []
    operands += [f"msg from {row['recv_peer']}"] if traits.receives else []
    target = _chunks(row["dst_buffer"], row["dst_index"], row["count"])
    operands = [target, *operands] if traits.reads_destination else operands
    results = [target] if traits.writes_destination else []
    results += [f"send to {row['send_peer']}"] if traits.sends else []
    return f"{' + '.join(operands)} -> {', '.join(results)}"
