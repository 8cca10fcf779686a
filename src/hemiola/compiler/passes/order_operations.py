"""order_operations: what can run at the same time stands together."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hemiola import _core
from hemiola.compiler.options import CompileOptions
from hemiola.ir.chunk_dag import OPERATION, ChunkDag
from hemiola.ir.instruction_dag import memory_chunks
from hemiola.ir.rows import as_bytes, from_bytes


@dataclass(frozen=True, slots=True)
class OrderOperations:
    """chunk 0 hop 1, chunk 0 hop 2, chunk 1 hop 1, ... -> hop 1 of every chunk, hop 2 of every chunk, ...

    Operations are sorted by depth, the length of the longest chain of conflicting operations before them.
    Messages of a connection are sent in this order. Turned off, it is the order of the program.
    """

    name: str = "order_operations"

    def apply(self, dag: ChunkDag, options: CompileOptions) -> ChunkDag:
        """Sort by depth."""
        chunks = memory_chunks(dag.collective, dag.scratch_chunks)
        rows = _core.order_operations(as_bytes(dag.operations), chunks)
        return replace(dag, operations=from_bytes(rows, OPERATION))

    def skip(self, dag: ChunkDag, options: CompileOptions) -> ChunkDag:
        """The order of the program."""
        return dag
