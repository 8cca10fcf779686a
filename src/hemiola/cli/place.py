"""hemiola place: where the axes of a job go on a system, ranked by predicted time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hemiola.cli import options
from hemiola.cli.output import make_table, print_facts, print_json, print_table
from hemiola.cli.progress import working
from hemiola.placement.axes import parse_axes
from hemiola.placement.export import write_exports
from hemiola.placement.place import Answer, place
from hemiola.placement.read_traffic import read_traffic
from hemiola.placement.score import Contribution, Score
from hemiola.placement.traffic import Traffic, plain_traffic
from hemiola.topology.presets import load_system
from hemiola.units import format_bytes, format_seconds

ASSUMED_BYTES = 1 << 30


@click.command("place")
@click.option("--system", "system_name", required=True, metavar="S", help="A preset, or a YAML file.")
@click.option("--axes", "axes_text", required=True, metavar="AXES", help="Names and sizes: data=8,model=4.")
@click.option(
    "--traffic", "traffic_text", metavar="FILE|YAML",
    help="A list of requests, or {from: megatron|fsdp2|ddp|moe, ...}; by default an all-reduce of 1GiB over each axis.",
)  # fmt: skip
@click.option(
    "--top",
    type=click.IntRange(1, 100000),
    default=10,
    show_default=True,
    metavar="K",
    help="How many to print.",
)
@click.option(
    "-o", "output", type=click.Path(path_type=Path), metavar="DIR",
    help="Write the best one here as files for JAX, PyTorch, Megatron, Open MPI and Slurm.",
)  # fmt: skip
@options.as_json
def command(
    system_name: str, axes_text: str, traffic_text: str | None, top: int, output: Path | None, as_json: bool
) -> None:
    """Rank where the axes of a job go on the levels of a system, by the predicted time of its whole traffic.

    All groups of a request run at the same time and share links. The orders that frameworks use by default are scored in the same way.
    """
    system, axes = load_system(system_name), parse_axes(axes_text)
    traffic = plain_traffic(axes, ASSUMED_BYTES) if traffic_text is None else read_traffic(traffic_text, axes)
    with working(f"placing axes on system {system.name}"):
        answer = place(system, axes, traffic, top)
    files = [] if output is None else write_exports(answer, output)
    if as_json:
        print_json({**answer_fields(answer), "files": [str(path) for path in files]})
    else:
        _print(answer, assumed=traffic_text is None)
        if output is not None:
            click.echo(f"\nWrote {', '.join(path.name for path in files)} to {output}.")


def answer_fields(answer: Answer) -> dict[str, Any]:
    """All of an answer as JSON."""
    scores = answer.ranking.scores if answer.ranking is not None else ()
    found = answer.found
    return {
        "system": answer.system.name,
        "levels": [level.name for level in answer.system.levels],
        "axes": {axis.name: axis.size for axis in answer.axes},
        "num_placements": answer.ranking.num_placements if answer.ranking is not None else 0,
        "worst_seconds": None
        if answer.ranking is None or answer.found is not None
        else answer.ranking.worst_seconds,
        "traffic": _traffic_fields(answer.traffic),
        "default_is_best": answer.default_is_best,
        "defaults": [
            {
                "name": default.default.name,
                "matrix": None if default.matrix is None else [list(row) for row in default.matrix.rows],
                "axes": None if default.matrix is None else [axis.name for axis in default.matrix.axes],
                "seconds": default.seconds,
            }
            for default in answer.defaults
        ],
        "placements": [
            _score_fields(score, seconds, answer)
            for score, seconds in zip(scores, answer.seconds_of_rows, strict=True)
        ],
        "permutation": None
        if found is None
        else {
            "devices": found.grid.reshape(-1).tolist(),
            "seconds": found.seconds,
            "start_seconds": found.start_seconds,
            "default_seconds": answer.default_seconds,
            "num_trials": found.num_trials,
            "replayed_seconds": found.replayed_seconds,
        },
    }


def _score_fields(score: Score, seconds: float, answer: Answer) -> dict[str, Any]:
    return {
        "matrix": [list(row) for row in score.matrix.rows],
        "seconds": seconds,
        "bound_seconds": score.bound_seconds,
        "default_seconds": answer.default_seconds,
        "requests": [_contribution_fields(part) for part in score.contributions],
    }


def _contribution_fields(part: Contribution) -> dict[str, Any]:
    return {
        "name": part.request.name,
        "seconds": part.seconds,
        "exposed_seconds": part.exposed_seconds,
        "bound_seconds": part.bound_seconds,
        "algorithm": part.algorithm,
    }


def _traffic_fields(traffic: Traffic) -> dict[str, Any]:
    return {
        "about": traffic.about,
        "computation": dict(traffic.computation),
        "requests": [
            {
                "name": request.name,
                "collective": request.collective,
                "over": list(request.over),
                "bytes": request.num_bytes,
                "per_step": request.per_step,
                "overlaps": request.overlaps,
            }
            for request in traffic.requests
        ],
    }


def _print(answer: Answer, assumed: bool) -> None:
    if assumed:
        click.echo(
            f"No --traffic was given: an all-reduce of {format_bytes(ASSUMED_BYTES)} over each axis.\n"
        )
    if answer.ranking is not None:
        _print_ranking(answer)
    click.echo("\nDefaults:\n")
    times = {
        default.default.name: "not scored: it fits no matrix, and there are too many devices"
        if default.seconds is None
        else format_seconds(default.seconds)
        for default in answer.defaults
    }
    print_facts(times)
    if answer.found is not None:
        click.echo(
            f"\nThe system is uneven: times are of its links one by one, bounds as if all units were alike. A search over {answer.found.num_trials}"
            f" permutations found {format_seconds(answer.found.seconds)}{_gain(answer, answer.found.seconds)}."
        )
    if answer.default_is_best:
        click.echo("\nNothing is faster than the default: keep it.")
    if answer.ranking is not None and answer.found is None:
        _print_requests(answer.ranking.scores[0])


def _print_ranking(answer: Answer) -> None:
    ranking = answer.ranking
    assert ranking is not None
    levels = " ".join(level.name for level in answer.system.levels)
    table = make_table("time", "bound", "speed-up", *(f"{axis.name}={axis.size}" for axis in answer.axes),
                       numbers=("time", "bound", "speed-up"))  # fmt: skip
    for score, seconds in zip(ranking.scores, answer.seconds_of_rows, strict=True):
        table.add_row(
            "",
            format_seconds(seconds),
            format_seconds(score.bound_seconds),
            _speed_up(answer, seconds),
            *("x".join(map(str, row)) for row in score.matrix.rows),
        )
    print_table(table)
    click.echo(
        f"\n{len(ranking.scores)} of {ranking.num_placements} placements, by exposed seconds a step{_slowest(answer)}. Each axis is split over: {levels}. Speed-up is over the best default; no algorithm"
        " beats the bound under its placement."
    )


def _print_requests(score: Score) -> None:
    click.echo("\nWhat the requests of the first one contribute:\n")
    table = make_table(
        "time", "exposed", "bound", "algorithm", "request", numbers=("time", "exposed", "bound")
    )
    for part in score.contributions:
        table.add_row(
            "",
            format_seconds(part.seconds),
            format_seconds(part.exposed_seconds),
            format_seconds(part.bound_seconds),
            part.algorithm,
            part.request.name,
        )
    print_table(table)


def _slowest(answer: Answer) -> str:
    if answer.ranking is None or answer.found is not None:
        return ""
    return f"; the slowest takes {format_seconds(answer.ranking.worst_seconds)}"


def _speed_up(answer: Answer, seconds: float) -> str:
    default = answer.default_seconds
    return "-" if default is None or seconds == 0 else f"{default / seconds:.2f}x"


def _gain(answer: Answer, seconds: float) -> str:
    gain = _speed_up(answer, seconds)
    return "" if gain == "-" else f", {gain} over the best default"
