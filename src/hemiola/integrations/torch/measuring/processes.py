"""Where tasks are measured: in processes of this machine or on a Ray cluster, every batch of tasks in a process of its own."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Any, Protocol

from hemiola.errors import FusionError
from hemiola.integrations.torch.measuring.group_task import GroupTask
from hemiola.integrations.torch.measuring.measure_tasks import measure_tasks
from hemiola.integrations.torch.measuring.timing import Timing

Batch = Sequence[GroupTask]
Measured = tuple[int, list[Timing | str]]
"""The number of a batch, and the time of each of its tasks or why there is none."""


class MeasuringWorkers(Protocol):
    """Processes that measure."""

    def measure(self, batches: Sequence[Batch]) -> Iterator[Measured]:
        """Each batch in a new process, in any order; what is finished is given at once."""
        ...


class LocalWorkers:
    """Processes of this machine."""

    def __init__(self, num_jobs: int) -> None:
        if num_jobs < 1:
            raise FusionError(f"at least one job measures; found {num_jobs}")
        self._num_jobs = num_jobs

    def measure(self, batches: Sequence[Batch]) -> Iterator[Measured]:
        """At most the number of jobs at once."""
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(self._num_jobs, context, max_tasks_per_child=1) as pool:
            running: dict[Future[list[Timing | str]], int] = {
                pool.submit(measure_tasks, batch): number for number, batch in enumerate(batches)
            }
            try:
                while running:
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for one in done:
                        yield running.pop(one), one.result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


class RayWorkers:
    """One process a core of the Ray cluster that ``RAY_ADDRESS`` names, or of one on this machine."""

    def __init__(self) -> None:
        try:
            import ray
        except ImportError:
            raise FusionError(
                "Ray is not installed; pip install 'hemiola[ray]' or leave out --on ray"
            ) from None
        self._ray: Any = ray

    def measure(self, batches: Sequence[Batch]) -> Iterator[Measured]:
        """As many at once as the cluster has cores."""
        ray = self._ray
        begun_here = not ray.is_initialized()
        if begun_here:
            ray.init(log_to_driver=False, include_dashboard=False)
        remote = ray.remote(num_cpus=1, max_calls=1)(measure_tasks)
        waiting = {remote.remote(batch): number for number, batch in enumerate(batches)}
        try:
            while waiting:
                done, _ = ray.wait(list(waiting))
                for one in done:
                    yield waiting.pop(one), ray.get(one)
        finally:
            for one in waiting:
                ray.cancel(one, force=True)
            if begun_here:
                ray.shutdown()
