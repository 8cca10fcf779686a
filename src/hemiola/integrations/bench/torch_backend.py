"""TorchBackend: libraries called through torch.distributed, which are Gloo and Hemiola's process group."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from importlib import import_module
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from hemiola.integrations.bench.backend import Task
from hemiola.integrations.bench.serve import serve
from hemiola.runtime.checking.trial import Buffers
from hemiola.runtime.communicator.numbers import NumpyArray


def _named(new: str, old: str) -> Callable[..., Any]:
    """A function of torch.distributed under its name in this release."""
    found: Callable[..., Any] = getattr(dist, new, None) or getattr(dist, old)
    return found


_all_gather = _named("all_gather_single", "all_gather_into_tensor")
_reduce_scatter = _named("reduce_scatter_single", "reduce_scatter_tensor")

CALLS: Mapping[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "allreduce": lambda data, _: dist.all_reduce(data),
    "broadcast": lambda data, _: dist.broadcast(data, 0),
    "allgather": lambda given, taken: _all_gather(taken, given),
    "reducescatter": lambda given, taken: _reduce_scatter(taken, given),
    "alltoall": lambda given, taken: dist.all_to_all_single(taken, given),
}


class TorchBackend:
    """A backend of torch.distributed, with one computing thread per process."""

    def __init__(self, backend: str, rank: int, num_ranks: int, rendezvous_file: str, timeout: float) -> None:
        torch.set_num_threads(1)
        if backend == "gloo":
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        else:
            import_module("hemiola.torch")
        dist.init_process_group(
            backend,
            init_method=f"file://{rendezvous_file}",
            rank=rank,
            world_size=num_ranks,
            timeout=timedelta(seconds=timeout),
        )

    def prepare(self, task: Task, buffers: Buffers) -> Callable[[], object]:
        """The function of torch.distributed for the task's collective, on tensors over the memory of the buffers."""
        given, taken = (_tensor(array, task.element) for array in (buffers.input, buffers.output))
        call = CALLS[task.kind]
        return lambda: call(given, taken)

    def barrier(self) -> None:
        """Wait for all ranks."""
        dist.barrier()

    def close(self) -> None:
        """End the process group."""
        dist.destroy_process_group()


def serve_torch(rank: int, _: object, backend: str, num_ranks: int, folder: str, timeout: float) -> None:
    """The body of one rank's process; ``folder`` holds the driver's socket and the file for the rendezvous of the ranks."""
    torch_backend = TorchBackend(backend, rank, num_ranks, os.path.join(folder, "rendezvous"), timeout)
    serve(os.path.join(folder, "driver"), rank, torch_backend)
    torch_backend.close()


def _tensor(array: NumpyArray, element: str) -> torch.Tensor:
    if element == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
