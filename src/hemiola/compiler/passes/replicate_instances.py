"""replicate_instances: cut operations into instances."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from hemiola.compiler.options import CompileOptions
from hemiola.errors import CompileError
from hemiola.ir.chunk_dag import ChunkDag
from hemiola.ir.plan import Rows

MAX_PARTS = 1 << 16


@dataclass(frozen=True, slots=True)
class ReplicateInstances:
    """copy input[2] -> 4 instances -> copy input[8], input[9], input[10], input[11], each on its own.

    Every chunk is cut into as many parts as the least common multiple of all instance counts asks for.
    An operation with ``parallel`` n on neighbouring chunks becomes n operations on n neighbouring shares of
    them; one outside a parallelize block stays one operation on all parts. The rows of an operation stay
    together, so the order keeps its meaning whatever the others cut.
    """

    name: str = "replicate_instances"

    def apply(self, dag: ChunkDag, options: CompileOptions) -> ChunkDag:
        """Cut every operation into its instances."""
        column = dag.operations["parallel"]
        if (column == 1).all():
            return dag
        parallel = [int(n) for n in np.unique(column)]
        parts = math.lcm(*parallel)
        if parts > MAX_PARTS:
            raise CompileError(
                f"instances of {parallel} together cut every chunk into {parts} parts, more than {MAX_PARTS}; "
                "use instance counts that divide each other"
            )
        return replace(
            dag,
            collective=dag.collective.refine(parts),
            operations=_cut(dag.operations, parts),
            scratch_chunks=(dag.scratch_chunks * np.uint32(parts)).astype(np.uint32),
        )

    def skip(self, dag: ChunkDag, options: CompileOptions) -> ChunkDag:
        """Everything is one instance."""
        operations = dag.operations.copy()
        operations["parallel"] = 1
        return replace(dag, operations=operations)


def _cut(operations: Rows, parts: int) -> Rows:
    parallel = operations["parallel"].astype(np.int64)
    rows = np.repeat(operations, parallel)
    first = np.cumsum(parallel) - parallel
    instance = (np.arange(len(rows)) - np.repeat(first, parallel)).astype(np.uint32)
    count = rows["count"] * (np.uint32(parts) // rows["parallel"])
    for side in ("src_index", "dst_index"):
        rows[side] = rows[side] * np.uint32(parts) + instance * count
    rows["count"], rows["instance"], rows["parallel"] = count, instance, 1
    return rows
