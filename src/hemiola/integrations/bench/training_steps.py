"""Training steps measured in the lab: the same model carried out in several ways, in turns, by one process per rank and core.

`measure_steps` builds a lab and starts one process on every rank of it, each of which runs this module:

    python -m hemiola.integrations.bench.training_steps JOB.json

A way is DDP in some buckets, DDP under torch.compile, or a fusion plan. All ways train their own copy of the model on the same batches; a round is a
few steps of each way, the order changes from round to round, and a step's time is that of the slowest rank.
"""

from __future__ import annotations

import copy
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from hemiola.lab.execute import execute
from hemiola.lab.lab import SAFE_MODULE, Starter
from hemiola.lab.shape import Shape

SECONDS_OF_A_JOB = 3600.0


@dataclass(frozen=True)
class Way:
    """How the steps of one column are taken."""

    name: str
    kind: str
    """``compute`` (eager, nothing averaged), ``ddp``, ``ddp-compile``, ``plan`` (compile_step) or ``buckets`` (DDP in a plan's buckets)."""
    backend: str = "hemiola"
    bucket_mb: float = 25.0
    plan: dict[str, Any] | None = None
    """A FusionPlan as JSON."""
    emulated_seconds: list[float] | None = None


@dataclass(frozen=True)
class StepJob:
    """What all ranks do."""

    model: str
    """``name:size`` of the models that are shipped."""
    ways: list[Way]
    rounds: int = 5
    steps: int = 2
    measure_collectives: bool = False
    largest_bytes: int = 0


@dataclass(frozen=True)
class StepTimes:
    """What was measured; the same on every rank."""

    seconds: dict[str, list[float]]
    """Of a step, by way and round."""
    losses: dict[str, list[float]]
    """Of rank 0, by way and step."""
    collectives: dict[str, Any] | None = None

    def median(self, way: str) -> float:
        """Seconds of a step."""
        return median(self.seconds[way])

    def spread(self, way: str) -> float:
        """The distance of the middle half of the rounds, as a share of the median."""
        ordered = sorted(self.seconds[way])
        quarter = len(ordered) // 4
        return (ordered[-1 - quarter] - ordered[quarter]) / self.median(way)


def two_hosts(megabits: float, delay: str = "1ms") -> str:
    """The shape wan-2x1 with another rate."""
    return (
        "name: wan-2x1\nabout: two hosts of one rank\nlevels:\n"
        f"  - {{name: host, count: 2, link: {{bandwidth: {megabits:g}Mbit/s, latency: {delay}}}}}\n"
        "  - {name: rank, count: 1, link: {bandwidth: 2GB/s}}\n"
    )


def measure_steps(shape: str, job: StepJob) -> StepTimes:
    """Build a lab of a shape, run the job on every rank of it, and take it down."""
    with tempfile.TemporaryDirectory() as folder:
        path, found = Path(folder, "job.json"), Path(folder, "found.json")
        path.write_text(json.dumps({**asdict(job), "found": str(found)}))
        with Starter(f"steps-{os.getpid()}", Shape("steps", shape, None)) as lab:
            code = execute(
                lab,
                [sys.executable, *SAFE_MODULE, "hemiola.integrations.bench.training_steps", str(path)],
                timeout=SECONDS_OF_A_JOB,
            )
        if code != 0:
            raise SystemExit(f"the ranks of {job.model} ended with {code}")
        return StepTimes(**json.loads(found.read_text()))


def main() -> None:
    """One rank."""
    fields = json.loads(Path(sys.argv[1]).read_text())
    found = Path(fields.pop("found"))
    job = StepJob(**{**fields, "ways": [Way(**one) for one in fields["ways"]]})
    rank = int(os.environ["RANK"])
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    import torch
    import torch.distributed as dist

    import hemiola.torch  # noqa: F401 (registers the backend)

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    groups = {name: dist.new_group(backend=name) for name in ("gloo", "hemiola")}
    times = _Rank(job, groups).run()
    if rank == 0:
        found.write_text(json.dumps(asdict(times)))
    dist.barrier()
    dist.destroy_process_group()


class _Rank:
    """One rank of a job."""

    def __init__(self, job: StepJob, groups: dict[str, Any]) -> None:
        self.job, self.groups = job, groups

    def run(self) -> StepTimes:
        """All ways in turns."""
        from hemiola.integrations.torch.measure_collectives import measure_collectives
        from hemiola.integrations.torch.models.library import make_step
        from hemiola.integrations.torch.models.training_step import ModelSize

        name, _, size = self.job.model.partition(":")
        model, loss_fn, batch = make_step(name, ModelSize(size or "medium"))
        times = StepTimes({}, {})
        steps: dict[str, Callable[[int], float]] = {}
        for way in self.job.ways:
            steps[way.name] = self._step(way, copy.deepcopy(model), loss_fn, batch)
            times.seconds[way.name], times.losses[way.name] = [], []
        for number in range(self.job.rounds + 1):
            for way in self.job.ways if number % 2 else reversed(self.job.ways):
                self._round(way.name, steps[way.name], times, is_counted=number > 0)
        if not self.job.measure_collectives:
            return times
        measured = measure_collectives(self.groups["hemiola"], self.job.largest_bytes or 1 << 24)
        return StepTimes(times.seconds, times.losses, asdict(measured))

    def _round(self, name: str, step: Callable[[int], float], times: StepTimes, *, is_counted: bool) -> None:
        import torch
        import torch.distributed as dist

        gc.collect()
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(self.job.steps):
            times.losses[name].append(step(len(times.losses[name])))
        mine = torch.tensor([(time.perf_counter() - begin) / self.job.steps], dtype=torch.float64)
        dist.all_reduce(mine, op=dist.ReduceOp.MAX)
        if is_counted:
            times.seconds[name].append(float(mine))

    def _step(self, way: Way, model: Any, loss_fn: Any, batch: Any) -> Callable[[int], float]:
        """A function of the number of the step that takes it and gives the loss."""
        import torch

        from hemiola.fusion.plan import plan_from_json
        from hemiola.integrations.torch.bucket_ddp import bucket
        from hemiola.integrations.torch.compile_step import compile_step

        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        group = self.groups[way.backend]
        if way.kind == "plan":
            plan = plan_from_json(way.plan)
            compiled = compile_step(
                model,
                loss_fn,
                optimizer,
                batch,
                plan=plan,
                process_group=group,
                emulated_seconds=way.emulated_seconds,
            )
            return lambda number: float(compiled(*batch))
        wrapped = self._wrapped(way, model, group)
        if way.kind == "buckets":
            bucket(wrapped, plan_from_json(way.plan))

        def take(number: int) -> float:
            loss = loss_fn(wrapped(batch[0]), batch[1])
            torch.autograd.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            return float(loss.detach())

        return take

    def _wrapped(self, way: Way, model: Any, group: Any) -> Any:
        import torch
        from torch.nn.parallel import DistributedDataParallel

        if way.kind == "compute":
            return model
        wrapped = DistributedDataParallel(model, process_group=group, bucket_cap_mb=way.bucket_mb)
        if way.kind == "ddp-compile":
            return torch.compile(wrapped)
        return wrapped


if __name__ == "__main__":
    main()
