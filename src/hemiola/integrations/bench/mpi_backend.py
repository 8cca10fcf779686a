"""MpiBackend: the MPI library for which mpi4py is built. mpirun starts this file as a module."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mpi4py import MPI

from hemiola.integrations.bench.backend import Task
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
"""The MPI type of every element type but ``MPI_LACKS``."""


class MpiBackend:
    """MPI's communicator of all ranks."""

    def __init__(self) -> None:
        self._world = MPI.COMM_WORLD
        self.rank = self._world.Get_rank()

    def prepare(self, task: Task, buffers: Buffers) -> Callable[[], object]:
        """The function of the MPI standard for the task's collective."""
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
        """Does nothing: mpi4py finalises MPI when the process ends."""


if __name__ == "__main__":
    mine = MpiBackend()
    serve(os.path.join(sys.argv[1], "driver"), mine.rank, mine)
