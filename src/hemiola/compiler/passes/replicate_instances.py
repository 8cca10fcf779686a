"""replicate_instances: cut operations into instances."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from hemiola.compiler.options import CompileOptions
from hemiola.errors import CompileError
from hemiola.ir.chunk_dag import ChunkDag
from hemiola.ir.plan import Rows

MAX_PIECES = 1 << 16


@dataclass(frozen=True, slots=True)
class ReplicateInstances:
    """copy input[2] -> 4 instances -> copy input[8], input[9], input[10], input[11], each on its own.

    Every chunk is cut into as many pieces as the least common multiple of all instance counts asks for.
    An operation with ``parallel`` n on neighbouring chunks becomes n operations on n neighbouring parts of
    them; one outside a parallelize block stays one operation on all pieces. The rows of an operation stay
    together, so the order keeps its meaning whatever the others cut.
    """

    name: str = "replicate_instances"

    def apply(self, dag: ChunkDag, options: CompileOptions) -> ChunkDag:
        """Cut every operation into its instances."""
        parallel = [int(n) for n in np.unique(dag.operations["parallel"])]
        pieces = math.lcm(*parallel) if parallel else 1
        if pieces > MAX_PIECES:
            raise CompileError(
                f"instances of {parallel} together cut every chunk into {pieces} pieces, more than {MAX_PIECES}; "
                "use instance counts that divide each other"
            )
        if pieces == 1:
            return dag
        return replace(
            dag,
            collective=dag.collective.refine(pieces),
            operations=_cut(dag.operations, pieces),
            scratch_chunks=(dag.scratch_chunks * np.uint32(pieces)).astype(np.uint32),
        )

    def skip(self, dag: ChunkDag, options: CompileOptions) -> ChunkDag:
        """Everything is one instance."""
        operations = dag.operations.copy()
        operations["parallel"] = 1
        return replace(dag, operations=operations)


def _cut(operations: Rows, pieces: int) -> Rows:
    parallel = operations["parallel"].astype(np.int64)
    rows = np.repeat(operations, parallel)
    first = np.cumsum(parallel) - parallel
    instance = (np.arange(len(rows)) - np.repeat(first, parallel)).astype(np.uint32)
    count = rows["count"] * (np.uint32(pieces) // rows["parallel"])
    for side in ("src_index", "dst_index"):
        rows[side] = rows[side] * np.uint32(pieces) + instance * count
    rows["count"], rows["instance"], rows["parallel"] = count, instance, 1
    return rows
