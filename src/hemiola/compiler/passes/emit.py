"""emit: the plan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hemiola import _core
from hemiola.compiler.options import CompileOptions
from hemiola.compiler.pipeline import refuse_skip
from hemiola.ir.instruction_dag import InstructionDag
from hemiola.ir.plan import DEPENDENCY, RANK, STEP, THREADBLOCK, Plan, Rows
from hemiola.ir.rows import as_bytes, from_bytes


@dataclass(frozen=True, slots=True)
class Emit:
    """Instructions, grouped by rank and threadblock, become the tables of a Plan."""

    name: str = "emit"

    def apply(self, dag: InstructionDag, options: CompileOptions) -> Plan:
        """Lay out the tables."""
        assert dag.waits_first is not None
        assert dag.waits_on is not None
        tables = _core.emit(as_bytes(dag.instructions), dag.num_ranks, dag.waits_first, dag.waits_on)
        return Plan(
            name=dag.name,
            collective=dag.collective,
            protocol=dag.protocol,
            ranks=_ranks(dag, tables.first_threadblock),
            threadblocks=from_bytes(tables.threadblocks, THREADBLOCK),
            steps=from_bytes(tables.steps, STEP),
            dependencies=from_bytes(tables.dependencies, DEPENDENCY),
            lines=dag.lines,
            min_bytes=dag.min_bytes,
            max_bytes=dag.max_bytes,
        )

    def skip(self, dag: InstructionDag, options: CompileOptions) -> Plan:
        """There is no plan without its tables."""
        raise refuse_skip(self.name, "it makes the plan")


def _ranks(dag: InstructionDag, first_threadblock: npt.NDArray[np.uint32]) -> Rows:
    chunks = dag.chunks().reshape(-1, 3)
    ranks = np.empty(dag.num_ranks, RANK)
    ranks["input_chunks"], ranks["output_chunks"], ranks["scratch_chunks"] = chunks.T
    ranks["first_threadblock"] = first_threadblock
    return ranks
