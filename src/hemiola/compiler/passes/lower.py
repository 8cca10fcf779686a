"""lower: operations on chunks become instructions of ranks."""

from __future__ import annotations

from dataclasses import dataclass

from hemiola import _core
from hemiola.compiler.options import CompileOptions
from hemiola.compiler.pipeline import refuse_skip
from hemiola.ir.chunk_dag import ChunkDag
from hemiola.ir.instruction_dag import INSTRUCTION, InstructionDag
from hemiola.ir.rows import as_bytes, from_bytes


@dataclass(frozen=True, slots=True)
class Lower:
    """remote copy -> s, r; remote reduce -> s, rrc; local copy -> cpy; local reduce -> re."""

    name: str = "lower"

    def apply(self, dag: ChunkDag, options: CompileOptions) -> InstructionDag:
        """One or two instructions per operation."""
        return InstructionDag(
            name=dag.name,
            collective=dag.collective,
            protocol=dag.protocol,
            instructions=from_bytes(_core.lower(as_bytes(dag.operations)), INSTRUCTION),
            num_operations=len(dag.operations),
            scratch_chunks=dag.scratch_chunks,
            lines=dag.lines,
            min_bytes=dag.min_bytes,
            max_bytes=dag.max_bytes,
        )

    def skip(self, dag: ChunkDag, options: CompileOptions) -> InstructionDag:
        """There is no plan without instructions."""
        raise refuse_skip(self.name, "it turns operations on chunks into instructions of ranks")
