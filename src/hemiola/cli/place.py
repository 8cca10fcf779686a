"""hemiola place: where the axes of a job go on a system, ranked by predicted time."""

from __future__ import annotations

from pathlib import Path

import click

from hemiola.cli import options
from hemiola.cli.output import make_table, print_facts, print_json, print_table, print_wrapped
from hemiola.cli.progress import working
from hemiola.cost.estimates.distances import distance_of
from hemiola.placement.export import README_NAME, write_exports
from hemiola.placement.host_cpus import parse_host_cpus
from hemiola.placement.place import PlacementResult, ReplayedComparison
from hemiola.placement.score import PlacementScore
from hemiola.planning import ASSUMED_BYTES, place
from hemiola.simulator.runtimes.by_name import with_runtime
from hemiola.topology.presets import load_system
from hemiola.units import format_bytes, format_seconds

ASSUMED_TRAFFIC = (
    f"no --traffic was given, so an all-reduce of {format_bytes(ASSUMED_BYTES)} over each axis was assumed. Real jobs load their axes very"
    " differently (tensor parallelism many times more than data parallelism), and this ranking may be the wrong way round for yours. Say"
    " what the job is: --traffic '{from: megatron, hidden: 4096, layers: 32, seq: 4096, micro_batch: 1, global_batch: 64}'"
)
SMALL_BYTES, LARGE_BYTES = 1 << 20, 1 << 26
"""Of requests, for the distances of estimates that are said."""


@click.command("place")
@click.option("--system", "system_name", required=True, metavar="S", help="A preset, or a YAML file.")
@click.option("--axes", "axes_text", required=True, metavar="AXES", help="Names and sizes: data=8,model=4.")
@click.option(
    "--traffic", "traffic_text", metavar="FILE|YAML",
    help="A list of requests, or {from: megatron|torchtitan|fsdp2|ddp|moe, ...}; without it an all-reduce of 1GiB over each axis is assumed.",
)  # fmt: skip
@click.option(
    "--top",
    type=click.IntRange(1, 100000),
    default=10,
    show_default=True,
    metavar="K",
    help="How many to print.",
)
@click.option("--quick", is_flag=True, help="Estimates only: nothing is compiled or replayed.")
@click.option(
    "-o", "output", type=click.Path(path_type=Path), metavar="DIR",
    help="Write the best one here as files for JAX, PyTorch, Megatron, Open MPI, torchrun and Slurm.",
)  # fmt: skip
@click.option(
    "--host-cpus", "cpus_text", metavar="NxC",
    help="NUMA nodes of a host and cores of each, such as 2x64, for the rankfile; by default two sockets.",
)  # fmt: skip
@options.runtime
@options.as_json
def command(
    system_name: str, axes_text: str, traffic_text: str | None, top: int, quick: bool, output: Path | None,
    cpus_text: str | None, runtime_name: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Rank where the axes of a job go on the levels of a system, by the predicted time of its whole traffic.

    All groups of a request run at the same time and share links. The orders that frameworks use by default are scored in the same way.
    """
    host_cpus = None if cpus_text is None else parse_host_cpus(cpus_text)
    assumed = ASSUMED_TRAFFIC if traffic_text is None else None
    with working(f"placing axes on system {system_name}"):
        system = with_runtime(load_system(system_name), runtime_name)
        result = place(system, axes_text, traffic_text, top=top, replay=not quick)
    files = [] if output is None else write_exports(result, output, host_cpus=host_cpus, assumed=assumed)
    if as_json:
        if assumed is not None:
            click.echo(f"warning: {assumed}", err=True)
        names = [str(path) for path in files]
        print_json({**result.to_json(), "assumed_traffic": assumed, "files": names})
        return
    _print(result, assumed)
    if output is not None:
        click.echo(
            f"\nWrote {', '.join(path.name for path in files)} to {output}; {README_NAME} says how to apply each."
        )


def _print(result: PlacementResult, assumed: str | None) -> None:
    if assumed is not None:
        print_wrapped("ASSUMED: ", assumed)
        click.echo()
    if result.ranking is not None:
        _print_ranking(result)
    click.echo("\nDefaults:\n")
    times = {
        default.default.name: "not scored: it fits no matrix, and there are too many devices"
        if default.seconds is None
        else format_seconds(default.seconds)
        for default in result.defaults
    }
    print_facts(times)
    if result.searched is not None:
        click.echo(
            f"\nThe system is uneven: times are of its links one by one, bounds as if all units were alike. A search over {result.searched.num_trials}"
            f" permutations found {format_seconds(result.searched.seconds)}{_gain(result, result.searched.seconds)}."
        )
    if result.replayed is not None:
        _print_replayed(result.replayed)
    if result.default_is_best:
        click.echo("\nNothing is faster than the default: keep it.")
    if result.ranking is not None and result.searched is None:
        _print_requests(result.ranking.scores[0])


def _print_replayed(replayed: ReplayedComparison) -> None:
    """The first placement against the best default, with the plans that carry it out."""
    default = replayed.default_seconds
    gain = (
        ""
        if not default or not replayed.seconds
        else f", {default / replayed.seconds:.2f}x over the best default,"
    )
    against = "" if default is None else f" {format_seconds(default)}"
    click.echo(
        f"\nReplayed, every request with its best plan: the first takes {format_seconds(replayed.seconds)}{gain}{against}."
    )
    for one in replayed.requests:
        if one.plan is not None:
            print_wrapped(f"  {format_seconds(one.seconds)}  {one.request.name}: ", one.plan.name)


def _print_ranking(result: PlacementResult) -> None:
    ranking = result.ranking
    assert ranking is not None
    levels = " ".join(level.name for level in result.system.levels)
    table = make_table("time", "bound", "speed-up", *(f"{axis.name}={axis.size}" for axis in result.axes),
                       numbers=("time", "bound", "speed-up"))  # fmt: skip
    for score, seconds in zip(ranking.scores, result.seconds_of_rows, strict=True):
        table.add_row(
            "",
            format_seconds(seconds),
            format_seconds(score.bound_seconds),
            _speed_up(result, seconds),
            *("x".join(map(str, row)) for row in score.matrix.rows),
        )
    print_table(table)
    click.echo(
        f"\n{len(ranking.scores)} of {ranking.num_placements} placements, by estimated exposed seconds a step{_slowest(result)}. Each axis is split over: {levels}. Speed-up is over the best default; no algorithm"
        " beats the bound under its placement."
        f" An estimate is {distance_of('placements', LARGE_BYTES)}, and {distance_of('placements', SMALL_BYTES)}."
    )


def _print_requests(score: PlacementScore) -> None:
    click.echo("\nWhat the requests of the first one contribute, estimated:\n")
    table = make_table(
        "time", "exposed", "bound", "algorithm", "request", numbers=("time", "exposed", "bound")
    )
    for part in score.times:
        table.add_row(
            "",
            format_seconds(part.seconds),
            format_seconds(part.exposed_seconds),
            format_seconds(part.bound_seconds),
            part.algorithm,
            part.request.name,
        )
    print_table(table)


def _slowest(result: PlacementResult) -> str:
    if result.ranking is None or result.searched is not None:
        return ""
    return f"; the slowest takes {format_seconds(result.ranking.worst_seconds)}"


def _speed_up(result: PlacementResult, seconds: float) -> str:
    default = result.default_seconds
    return "-" if default is None or seconds == 0 else f"{default / seconds:.2f}x"


def _gain(result: PlacementResult, seconds: float) -> str:
    gain = _speed_up(result, seconds)
    return "" if gain == "-" else f", {gain} over the best default"
