"""Training steps carried out as fusion plans say, measured in the lab against DDP, DDP with its buckets swept, and DDP under torch.compile.

    python benchmarks/fusion_lab.py [--models transformer,llama] [--ratios 1] [--rounds 5] [--out fusion_lab.json]

Two hosts of one rank and one core each (wan-2x1, 1 ms), at the rate at which averaging all gradients takes as long as ``ratio`` times the computation. What messages take is measured
there first; with it plans are searched, once without and once with split buckets. Then all ways run in turns over both process groups; for each of them
the faster group counts. DDP's default bucket is scaled to the gradients' bytes as 25 MiB is to a model of 100 M parameters. Runs that are
in the file are not repeated. Needs to be root, for network namespaces.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hemiola.fusion.baselines import merging_alone, operator_fusion_alone
from hemiola.fusion.bounds import AtLeast
from hemiola.fusion.evaluate import StepEvaluator
from hemiola.fusion.fuse import FusionResult, fuse
from hemiola.fusion.search import SearchOptions
from hemiola.fusion.worker_collectives import collectives_of_file
from hemiola.integrations.bench.training_steps import StepJob, StepTimes, Way, measure_steps, two_hosts
from hemiola.integrations.torch.capture import capture
from hemiola.integrations.torch.compute_times import compute_times, measure_rates
from hemiola.integrations.torch.load_step import load_step
from hemiola.integrations.torch.models.training_step import ModelSize
from hemiola.report.machine import describe_machine

BACKENDS = ("hemiola", "gloo")
LEAST_MEGABITS = 100.0
DEFAULT_BUCKET_SHARE = 25 * 2**20 / 400e6
"""Of the gradients' bytes."""
SWEPT_SHARES = (0.02, 0.05, 0.12, 0.3)
CANDIDATES = 20_000


@dataclass(frozen=True)
class Planned:
    """What was predicted, and the plans to run."""

    ways: list[Way]
    predicted: dict[str, float]
    in_step_seconds: float
    steady_seconds: float


def computed(model: str, rounds: int) -> float:
    """Seconds of an eager step that averages nothing."""
    job = StepJob(f"{model}:medium", [Way("compute", "compute")], rounds=rounds)
    return measure_steps(two_hosts(500.0), job).median("compute")


def planned(model: str, measured: dict[str, Any]) -> Planned:
    """Search with what messages take on this network."""
    training = load_step(model, ModelSize.MEDIUM)
    step = capture(training.module, training.loss, training.batch)
    rates = measure_rates()
    with TemporaryDirectory() as folder:
        path = Path(folder, "collectives.json")
        path.write_text(json.dumps(measured))
        collectives = rates.added_to(collectives_of_file(path))
    compute = compute_times(step, training, rates)
    times = AtLeast(compute.groups, compute.least)
    evaluator = StepEvaluator(step.graph, collectives)
    found: dict[str, FusionResult] = {
        name: fuse(step.graph, compute, collectives, SearchOptions(max_candidates=CANDIDATES, split=split))
        for name, split in (("joint", False), ("joint, split", True))
    }
    plans = {name: result.plan for name, result in found.items()}
    plans["merging alone"] = merging_alone(evaluator, times)
    plans["operator fusion alone"] = operator_fusion_alone(evaluator, times)
    predicted = {name: result.step.seconds for name, result in found.items()} | dict(found["joint"].baselines)
    ways = [
        Way(f"{name} ({backend})", "plan", backend, plan=plan.to_json())
        for name, plan in plans.items()
        for backend in BACKENDS
    ]
    bounds = found["joint"].bounds
    return Planned(ways, predicted, bounds.in_step_seconds, bounds.steady_seconds)


def frameworks(gradient_bytes: int) -> list[Way]:
    """DDP with its default bucket and others, and under torch.compile."""
    default = gradient_bytes * DEFAULT_BUCKET_SHARE / 2**20
    ways = [Way(f"DDP ({backend})", "ddp", backend, default) for backend in BACKENDS]
    ways += [Way(f"DDP + torch.compile ({backend})", "ddp-compile", backend, default) for backend in BACKENDS]
    for share in SWEPT_SHARES:
        megabytes = gradient_bytes * share / 2**20
        ways += [Way(f"DDP swept {share:.0%} ({backend})", "ddp", backend, megabytes) for backend in BACKENDS]
    return ways


def run(model: str, ratio: float, rounds: int) -> dict[str, Any]:
    """One model at one ratio of communication to computation."""
    training = load_step(model, ModelSize.MEDIUM)
    gradient_bytes = sum(one.numel() * one.element_size() for one in training.module.parameters())
    compute = computed(model, rounds)
    megabits = max(LEAST_MEGABITS, gradient_bytes * 8e-6 / (ratio * compute))
    shape = two_hosts(megabits)
    probe = StepJob(f"{model}:medium", [], rounds=0, measure_collectives=True, largest_bytes=gradient_bytes)
    measured = measure_steps(shape, probe).collectives
    assert measured is not None
    plan = planned(model, measured)
    job = StepJob(f"{model}:medium", [*frameworks(gradient_bytes), *plan.ways], rounds=rounds)
    times = measure_steps(shape, job)
    return {
        "model": model, "ratio": ratio, "megabits": megabits, "gradient_bytes": gradient_bytes, "compute_seconds": compute,
        "collectives": measured, "predicted": plan.predicted, "in_step_seconds": plan.in_step_seconds,
        "steady_seconds": plan.steady_seconds, "times": asdict(times),
    }  # fmt: skip


def report(found: dict[str, Any]) -> None:
    """The faster backend of every way, against the plans and the limits."""
    times = StepTimes(**found["times"])
    best: dict[str, tuple[float, str]] = {}
    for way in times.seconds:
        name, _, backend = way.removesuffix(")").rpartition(" (")
        best[name] = min(best.get(name, (float("inf"), "")), (times.median(way), backend))
    limit = found["in_step_seconds"]
    print(
        f"\n{found['model']}, {found['gradient_bytes'] / 1e6:.1f} MB of gradients, {found['megabits']:.0f} Mbit/s, computation alone"
        f" {found['compute_seconds'] * 1e3:.0f} ms; predicted in-step limit {limit * 1e3:.0f} ms, across steps {found['steady_seconds'] * 1e3:.0f} ms"
    )
    for name, (seconds, backend) in sorted(best.items(), key=lambda item: item[1]):
        spread = times.spread(f"{name} ({backend})")
        said = found["predicted"].get(name)
        expected = f"predicted {said * 1e3:6.0f} ms" if said is not None else ""
        print(
            f"  {name:24} {seconds * 1e3:7.0f} ms  spread {spread:4.0%}  {seconds / limit:5.2f} x limit  {backend:8} {expected}"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """All models and ratios that are not in the file yet."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", default="transformer,llama")
    parser.add_argument("--ratios", default="1")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("fusion_lab.json"))
    options = parser.parse_args(arguments)
    found: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    print(
        f"{describe_machine()}; two hosts of one rank and one core, 1 ms; medians of {options.rounds} rounds in turns"
    )
    for model in options.models.split(","):
        for ratio in map(float, options.ratios.split(",")):
            key = f"{model} {ratio:g}"
            if key not in found:
                found[key] = run(model, ratio, options.rounds)
                options.out.write_text(json.dumps(found))
            report(found[key])


if __name__ == "__main__":
    main()
