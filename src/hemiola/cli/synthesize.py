"""hemiola synthesize: ranked programs for a reduction over axes of a placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from hemiola.cli import options
from hemiola.cli.handover import hand_over
from hemiola.cli.output import make_table, print_facts, print_json, print_table, print_wrapped
from hemiola.cli.progress import working
from hemiola.compiler.options import CompileOptions
from hemiola.errors import ReductionError
from hemiola.ir.plan import Plan
from hemiola.ir.targets import TARGETS
from hemiola.placement.axes import Axes, check_sizes, find_axis, parse_axes
from hemiola.placement.read_matrix import read_matrix, row_major
from hemiola.synthesis.groups import grouping_of, groups_of
from hemiola.synthesis.rank import MOST_REPLAYED, Question, Ranked, Ranking
from hemiola.synthesis.share import Matrix, device_groups, shared_system
from hemiola.synthesis.state import Request
from hemiola.topology.presets import load_system
from hemiola.units import format_bytes, format_seconds

MOST_DEVICES_LISTED = 4096
"""Systems with more get no explicit device groups in JSON."""


@click.command("synthesize")
@click.option("--system", "system_name", required=True, metavar="S", help="A preset, or a YAML file.")
@click.option("--axes", required=True, metavar="A", help="Names and sizes, as data=8,model=4.")
@click.option("--reduce", "reduced", required=True, metavar="NAMES", help="The axes to reduce over.")
@click.option("--bytes", "num_bytes", type=options.size, required=True, metavar="N", help="Of every device.")
@click.option(
    "--matrix", "matrix_text", metavar="M",
    help="The placement: a row for each axis, a number for each level, as 2,4;2,2; row-major where left out.",
)  # fmt: skip
@click.option(
    "--collective", type=click.Choice([one.value for one in Request]), default="allreduce", show_default=True,
    help="What is asked for.",
)  # fmt: skip
@click.option("--top", type=click.IntRange(1, 1000), default=5, show_default=True, metavar="K")
@click.option("--quick", is_flag=True, help="Closed forms only: nothing is compiled, replayed or tuned.")
@click.option(
    "-o", "--out", metavar="OUT", help="Write the plan of the first program, for one group, to this file."
)
@options.target
@options.as_json
def command(
    system_name: str, axes: str, reduced: str, num_bytes: int, matrix_text: str | None, collective: str,
    top: int, quick: bool, out: str | None, target: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Find the best programs for a reduction over some axes of a placement.

    A program is a list of steps, each one collective over groups that the levels give. Programs of any length are
    searched; the best are compiled, proven and replayed while the groups of all other coordinates run beside them.
    """
    system, parsed = load_system(system_name), parse_axes(axes)
    rows = _rows(reduced, parsed)
    check_sizes(parsed, system.num_ranks, system.name)
    if num_bytes < 1:
        raise ReductionError("--bytes is 1 or more")
    counts = tuple(level.count for level in system.levels)
    placed = row_major(parsed, counts) if matrix_text is None else read_matrix(matrix_text, parsed, counts)
    matrix, sizes = placed.rows, {axis.name: axis.size for axis in parsed}
    question = Question(shared_system(system, matrix, rows), num_bytes, Request(collective))
    with working("searching, replaying and tuning"):
        ranking = question.rank(top, replay=not quick)
        if out is not None:
            hand_over({Path(out): _plan(ranking)}, TARGETS[target or "plan"], CompileOptions().slots)
    if as_json:
        print_json(_fields(system_name, sizes, rows, matrix, question, ranking))
    else:
        _print(sizes, matrix, question, ranking, [level.name for level in system.levels])


def _plan(ranking: Ranking) -> Plan:
    """The plan of the first program, as it was replayed."""
    replayed = ranking.programs[0].replayed
    if replayed is None or replayed.plan is None:
        raise ReductionError(
            f"there is no plan to write: programs are compiled for groups of up to {MOST_REPLAYED} devices, and not with"
            " --quick"
        )
    return replayed.plan


def _rows(names: str, axes: Axes) -> list[int]:
    """The numbers of the axes that are reduced over, ``data`` or ``data,model``."""
    wanted = [find_axis(axes, name.strip(), "--reduce") for name in names.split(",")]
    if len(set(wanted)) < len(wanted):
        raise ReductionError(f"an axis is named twice in {names[:60]!r}")
    return sorted(wanted)


def _verdict(ranking: Ranking) -> str:
    best, baseline = ranking.programs[0], ranking.baseline
    if ranking.keeps_default:
        return f"The default is kept: no program is faster than {baseline.name}, {format_seconds(baseline.seconds)}."
    return (
        f"The first program is {baseline.seconds / best.seconds:.2f} times as fast as the best default, {baseline.name},"
        f" {format_seconds(baseline.seconds)}."
    )


def _fields(
    system: str, axes: Mapping[str, int], rows: Sequence[int], matrix: Matrix, question: Question, ranking: Ranking
) -> dict[str, Any]:  # fmt: skip
    names, groups = list(axes), device_groups(matrix, rows)
    listed = len(groups) * question.num_devices <= MOST_DEVICES_LISTED
    return {
        "system": system,
        "axes": dict(axes),
        "reduce": [names[row] for row in rows],
        "collective": question.request.value,
        "bytes": question.num_bytes,
        "matrix": [list(row) for row in matrix],
        "factors": list(ranking.factors),
        "num_groups": len(groups),
        "keeps_default": ranking.keeps_default,
        "verdict": _verdict(ranking),
        "distance": ranking.distance,
        "baselines": [{"name": one.name, "seconds": one.seconds} for one in ranking.baselines],
        "programs": [_program_fields(one, ranking, groups if listed else None) for one in ranking.programs],
    }


def _program_fields(
    one: Ranked, ranking: Ranking, groups: Sequence[tuple[int, ...]] | None
) -> dict[str, Any]:
    return {
        "program": str(one.program),
        "steps": [
            {
                "collective": step.collective.value,
                "slice": step.slice_level,
                "form": step.form.value,
                "ancestor": step.ancestor,
                "seconds": seconds,
                "groups": None
                if groups is None
                else [
                    [devices[member] for member in group]
                    for devices in groups
                    for group in groups_of(grouping_of(step, one.program.depth), ranking.factors)
                ],
            }
            for step, seconds in zip(one.program, one.step_seconds, strict=True)
        ],
        "seconds": one.seconds,
        "blocking_seconds": one.blocking_seconds,
        "pipelined_seconds": one.pipelined_seconds,
        "replayed": one.replayed is not None,
        "how": None if one.replayed is None else one.replayed.how,
        "baseline_seconds": ranking.baseline.seconds,
        "bound_seconds": ranking.bound.seconds,
    }


def _print(
    axes: Mapping[str, int], matrix: Matrix, question: Question, ranking: Ranking, levels: Sequence[str]
) -> None:
    placed = {
        name: " · ".join(f"{part} {level}" for part, level in zip(row, levels, strict=True) if part > 1)
        or "1"
        for name, row in zip(axes, matrix, strict=True)
    }
    print_facts(
        {
            **{f"axis {name}": text for name, text in placed.items()},
            "reduction": f"{question.request.value} of {format_bytes(question.num_bytes)} over factors {list(ranking.factors)}",
            "bound": f"{format_seconds(ranking.bound.seconds)}: {ranking.bound.why}",
        }
    )
    click.echo()
    columns = ("time", "bound", "speed-up", "blocking", "pipelined")
    table = make_table(*columns, "program", numbers=columns)
    for one in ranking.programs:
        table.add_row(
            "", format_seconds(one.seconds), format_seconds(ranking.bound.seconds),
            f"{ranking.baseline.seconds / one.seconds:.2f}", format_seconds(one.blocking_seconds),
            format_seconds(one.pipelined_seconds), "\n".join(map(str, one.program)),
        )  # fmt: skip
    for base in ranking.baselines:
        table.add_row("", format_seconds(base.seconds), format_seconds(ranking.bound.seconds),
                      f"{ranking.baseline.seconds / base.seconds:.2f}", "", "", f"default: {base.name}")  # fmt: skip
    print_table(table)
    click.echo()
    print_wrapped("", _verdict(ranking))
    print_wrapped("", ranking.distance)
    if (first := ranking.programs[0].replayed) is not None:
        print_wrapped("", f"Its plan: {first.how}.")
    how = "replayed" if ranking.programs[0].replayed is not None else "by closed form"
    print_wrapped(
        "",
        f"Times are {how}, speed-ups over the best default; blocking and pipelined are closed forms. Groups of up to"
        f" {MOST_REPLAYED} devices are replayed unless --quick is given.",
    )
