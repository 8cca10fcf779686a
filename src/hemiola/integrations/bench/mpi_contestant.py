"""The contestant MPI: mpi4py on whatever MPI it is built for. Started by mpirun, as a module."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mpi4py import MPI

from hemiola.integrations.bench.contestant import Task
from hemiola.integrations.bench.serve import serve
from hemiola.runtime.checking.trial import Buffers

TYPES: Mapping[str, MPI.Datatype] = {
    "float32": MPI.FLOAT,
    "float64": MPI.DOUBLE,
    "int8": MPI.INT8_T,
    "uint8": MPI.UINT8_T,
    "int32": MPI.INT32_T,
    "int64": MPI.INT64_T,
}
"""All but ``MPI_LACKS``."""


class MpiContestant:
    """MPI's world."""

    def __init__(self) -> None:
        self._world = MPI.COMM_WORLD
        self.rank = self._world.Get_rank()

    def prepare(self, task: Task, buffers: Buffers) -> Callable[[], object]:
        """The call of MPI's standard with the same meaning."""
        given, taken = ([array, TYPES[task.element]] for array in (buffers.input, buffers.output))
        calls: Mapping[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
            "allreduce": (self._world.Allreduce, (MPI.IN_PLACE, taken)),
            "broadcast": (self._world.Bcast, (taken,)),
            "allgather": (self._world.Allgather, (given, taken)),
            "reducescatter": (self._world.Reduce_scatter_block, (given, taken)),
            "alltoall": (self._world.Alltoall, (given, taken)),
        }
        call, arguments = calls[task.kind]
        return partial(call, *arguments)

    def barrier(self) -> None:
        """Wait for all ranks."""
        self._world.Barrier()

    def close(self) -> None:
        """Nothing: mpi4py finalises when the process ends."""


if __name__ == "__main__":
    mine = MpiContestant()
    serve(os.path.join(sys.argv[1], "driver"), mine.rank, mine)
