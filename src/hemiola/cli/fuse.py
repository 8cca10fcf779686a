"""hemiola fuse: which operators of a training step are compiled together, and which gradients travel together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from hemiola.cli import options
from hemiola.cli.output import make_table, print_facts, print_json, print_table
from hemiola.cli.progress import counting, working
from hemiola.cli.requests import placement_options
from hemiola.errors import FusionError
from hemiola.fusion.collective_times import CollectiveTimes
from hemiola.fusion.fuse import ComputeTimes, FusionResult, fuse
from hemiola.fusion.graph import OpGraph
from hemiola.fusion.read_trace import TracedTimes, read_trace
from hemiola.fusion.search import SearchOptions
from hemiola.fusion.timeline import write_step_trace
from hemiola.fusion.worker_collectives import collectives_of_file, collectives_of_system, collectives_of_trace
from hemiola.ir.formats.files import write_atomically
from hemiola.units import format_bytes, format_seconds


@click.command("fuse")
@click.argument("model", required=False, metavar="[MODEL]")
@click.option(
    "--trace", "trace_path", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="T.json",
    help="A trace of torch's profiler instead of a model; .json or .json.gz.",
)  # fmt: skip
@click.option(
    "--size", default="medium", show_default=True, type=click.Choice(["small", "medium", "large", "full"]),
    help="Of a shipped model.",
)  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(2), metavar="N", help="Workers on the first devices of the system."
)
@click.option(
    "--system", "system_name", metavar="S", help="A preset, or a YAML file; prices of its tuned plans."
)
@click.option(
    "--collectives", "collectives_path", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE",
    help="Times that were measured on the running process group, instead of --system.",
)  # fmt: skip
@click.option("--split/--no-split", default=True, show_default=True, help="Whether all-reduces may be split.")
@click.option(
    "--candidates", type=click.IntRange(1), default=20_000, show_default=True, metavar="N",
    help="Plans that are compared; the same number and seed give the same plan.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "-o", "output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Write the plan, for hemiola.torch.compile_step, bucket and shard.",
)  # fmt: skip
@click.option(
    "--timeline", "timeline_path", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Write what happens when, for ui.perfetto.dev.",
)  # fmt: skip
@placement_options
@options.as_json
def command(
    model: str | None, trace_path: Path | None, size: str, workers: int | None, system_name: str | None,
    collectives_path: Path | None, split: bool, candidates: int, seed: int, output: Path | None, timeline_path: Path | None,
    axes_text: str | None, placement_text: str | None, over: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Fuse the operators and merge the gradients of a training step of MODEL, or of a trace, together.

    MODEL is vgg19, resnet50, transformer, rnnlm, bert, reformer or llama, or path/to/script.py:make_step, a function that
    gives the module, the loss function and a batch (inputs, targets). Operators are profiled on this machine. What
    collectives take comes from --system, from --collectives, or from the trace itself.
    """
    if (model is None) == (trace_path is None):
        raise click.UsageError("give a MODEL or --trace, one of them")
    asked = SearchOptions(seed=seed, max_candidates=candidates, split=split)
    where = {"axes": axes_text, "placement": placement_text, "over": over}
    if trace_path is not None:
        graph, compute, collectives = _from_trace(trace_path, collectives_path, system_name, workers, where)
    else:
        assert model is not None
        graph, compute, collectives = _from_model(model, size, collectives_path, system_name, workers, where)
    with counting(f"comparing plans for {graph.name}") as progress:
        result = fuse(graph, compute, collectives, asked, progress=lambda done, _: progress(done, candidates))
    if output is not None:
        text = json.dumps(result.plan.to_json(), indent=1)
        write_atomically(output, f"{text}\n".encode())
    if timeline_path is not None:
        write_step_trace(timeline_path, graph, result.plan, compute.groups, collectives)
    if as_json:
        print_json(result.to_json())
    else:
        _print(result, output, timeline_path)


def _collectives(
    path: Path | None,
    system_name: str | None,
    workers: int | None,
    num_bytes: int,
    where: dict[str, str | None],
) -> CollectiveTimes | None:
    if path is not None:
        return collectives_of_file(path)
    if system_name is None:
        return None
    with counting(f"tuning collectives on {system_name}") as progress:
        return collectives_of_system(system_name, workers, num_bytes, **where, progress=progress)


def _from_trace(
    path: Path,
    collectives_path: Path | None,
    system_name: str | None,
    workers: int | None,
    where: dict[str, str | None],
) -> tuple[OpGraph, ComputeTimes, CollectiveTimes]:
    with working(f"reading {path}"):
        step = read_trace(path)
    given = _collectives(collectives_path, system_name, workers, step.graph.gradient_bytes, where)
    collectives = given or collectives_of_trace(step, workers or 2)
    times = TracedTimes(step)
    return step.graph, ComputeTimes(times, times.own, are_groups_fixed=True), collectives


def _from_model(
    model: str,
    size: str,
    collectives_path: Path | None,
    system_name: str | None,
    workers: int | None,
    where: dict[str, str | None],
) -> tuple[OpGraph, ComputeTimes, CollectiveTimes]:
    capture, load_step, measure_rates, compute_times = _torch_side()
    with working(f"capturing {model}"):
        training = load_step(model, size)
        step = capture(training.module, training.loss, training.batch, name=model)
        rates = measure_rates()
    collectives = _collectives(collectives_path, system_name, workers, step.graph.gradient_bytes, where)
    if collectives is None:
        raise FusionError(
            "say what collectives take: --system with a preset or a file, or --collectives with measured times"
        )
    with counting(f"profiling {len(step.graph.operators)} operators") as progress:
        compute = compute_times(step, training, rates, progress)
    return step.graph, compute, rates.added_to(collectives)


def _torch_side() -> Any:
    """What needs PyTorch, where it is installed."""
    try:
        from hemiola.integrations.torch.capture import capture
        from hemiola.integrations.torch.compute_times import compute_times, measure_rates
        from hemiola.integrations.torch.load_step import load_step
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise FusionError(
            "capturing a model needs PyTorch, which is not installed; pip install torch, or use --trace"
        ) from None
    return capture, load_step, measure_rates, compute_times


def _print(result: FusionResult, output: Path | None, timeline_path: Path | None) -> None:
    step, plan = result.step, result.plan
    print_facts(
        {
            "step": f"{result.graph.name}: {len(result.graph.operators)} operators, {len(result.graph.gradients)} gradients, {format_bytes(result.graph.gradient_bytes)}",
            "plan": f"{len(plan.groups)} groups, {len(plan.buckets)} buckets; {result.num_candidates} plans compared",
            "predicted": f"{format_seconds(step.seconds)} a step: {format_seconds(step.compute_seconds)} computation, "
            f"{format_seconds(step.contended_seconds)} lost to messages on the same core, {format_seconds(step.exposed_seconds)} exposed communication",
            "communication": f"{format_seconds(step.communication_seconds)} ({result.source})",
            "bounds": f"{format_seconds(result.bounds.in_step_seconds)} within a step, {format_seconds(result.bounds.steady_seconds)} across steps; "
            f"the plan is {(step.seconds / result.bound_seconds - 1) * 100:.1f} % above the one that applies",
        }
    )
    if not result.has_fixed_groups:
        print_facts(
            {"noise": f"times of one operator differ by {result.noise * 100:.1f} % between processes"}
        )
    click.echo("")
    table = make_table("baseline", "step", "plan is faster by", numbers=("step", "plan is faster by"))
    for name, seconds in sorted(result.baselines.items(), key=lambda item: item[1]):
        table.add_row("", name, format_seconds(seconds), f"{(seconds / step.seconds - 1) * 100:.1f} %")
    print_table(table)
    if not result.is_gain:
        click.echo("\nNothing is clearly faster than what your framework does by itself: keep that.")
    if output is not None:
        how = "bucket(ddp_model, plan)" if result.has_fixed_groups else "compile_step(..., plan=plan)"
        click.echo(f"\nWrote {output}; hemiola.torch.{how} carries it out.")
    if timeline_path is not None:
        click.echo(f"Wrote {timeline_path}; open it in ui.perfetto.dev.")
