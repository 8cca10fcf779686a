"""hemiola synthesize: ranked programs for a reduction over axes of a placement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hemiola.cli import options
from hemiola.cli.handover import hand_over
from hemiola.cli.output import make_table, print_facts, print_json, print_table, print_wrapped
from hemiola.cli.progress import working
from hemiola.compiler.options import CompileOptions
from hemiola.ir.targets import TARGETS
from hemiola.placement.applied import AppliedPlacement
from hemiola.placement.requests import axis_numbers, find_placement
from hemiola.planning import synthesize
from hemiola.simulator.runtimes.by_name import with_runtime
from hemiola.synthesis.groups import grouping_of, groups_of
from hemiola.synthesis.state import REDUCTIONS
from hemiola.synthesis.synthesize import MOST_REPLAYED, SynthesisResult, how
from hemiola.topology.presets import load_system
from hemiola.units import format_bytes, format_seconds

MOST_DEVICES_LISTED = 4096
"""Systems with more get no explicit device groups in JSON."""


@click.command("synthesize")
@click.option("--system", "system_name", required=True, metavar="S", help="A preset, or a YAML file.")
@click.option("--axes", "axes_text", metavar="A", help="Names and sizes, as data=8,model=4.")
@click.option("--reduce", "reduced", required=True, metavar="NAMES", help="The axes to reduce over.")
@click.option(
    "--bytes", "num_bytes", type=options.size, required=True, metavar="N",
    help="As nccl-tests counts them: a device's input, and of an allgather its output.",
)  # fmt: skip
@click.option(
    "--placement", "placement_text", metavar="P",
    help="1x4;2x2 (a row for each axis, a number for each level) or a placement.json; row-major where left out.",
)  # fmt: skip
@click.option(
    "--collective", type=options.CollectiveName([kind.value for kind in REDUCTIONS]), default="allreduce", show_default=True,
    help="What is asked for.",
)  # fmt: skip
@click.option("--top", type=click.IntRange(1, 1000), default=5, show_default=True, metavar="K")
@click.option("--quick", is_flag=True, help="Estimates only: nothing is compiled or replayed.")
@click.option(
    "-o", "--out", metavar="OUT", help="Write the plan of the first program, for one group, to this file."
)
@options.target
@options.runtime
@options.as_json
def command(
    system_name: str, axes_text: str | None, reduced: str, num_bytes: int, placement_text: str | None, collective: str,
    top: int, quick: bool, out: str | None, target: str | None, runtime_name: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Find the best programs for a reduction over some axes of a placement.

    A program is a list of steps, each one collective over groups that the levels give. Programs of any length are
    searched; the best are compiled, proven and replayed while the groups of all other coordinates run beside them.
    """
    placement = find_placement(
        with_runtime(load_system(system_name), runtime_name), axes_text, placement_text
    )
    rows = axis_numbers(placement, reduced)
    with working("searching and replaying"):
        result = synthesize(
            placement.system,
            num_bytes,
            placement=placement,
            over=reduced,
            collective=collective,
            top=top,
            replay=not quick,
        )
        if out is not None:
            hand_over({Path(out): result.plan}, TARGETS[target or "plan"], CompileOptions().slots)
    if as_json:
        print_json(_fields(placement, rows, result))
    else:
        _print(placement, result)


def _verdict(result: SynthesisResult) -> str:
    best, baseline = result.programs[0], result.baseline
    if result.keeps_default:
        return f"The default is kept: no program is faster than {baseline.name}, {format_seconds(baseline.seconds)}."
    return (
        f"The first program is {baseline.seconds / best.seconds:.2f} times as fast as the best default, {baseline.name},"
        f" {format_seconds(baseline.seconds)}."
    )


def _fields(placement: AppliedPlacement, rows: list[int], result: SynthesisResult) -> dict[str, Any]:
    """What `SynthesisResult.to_json` gives, with the placement and explicit groups."""
    fields, groups = result.to_json(), result.request.groups
    if len(groups) * len(groups[0]) <= MOST_DEVICES_LISTED:
        for program, one in zip(fields["programs"], result.programs, strict=True):
            for step, instruction in zip(program["steps"], one.program, strict=True):
                members = groups_of(grouping_of(instruction, one.program.depth), result.factors)
                step["groups"] = [[group[member] for member in own] for group in groups for own in members]
    return {
        **fields,
        "axes": {axis.name: axis.size for axis in placement.axes},
        "reduce": [placement.axes[row].name for row in rows],
        "matrix": None if placement.matrix is None else [list(row) for row in placement.matrix.rows],
        "verdict": _verdict(result),
    }


def _print(placement: AppliedPlacement, result: SynthesisResult) -> None:
    placed = {}
    if placement.matrix is not None:
        names = [level.name for level in placement.system.levels]
        for axis, row in zip(placement.matrix.axes, placement.matrix.rows, strict=True):
            parts = [f"{part} {name}" for part, name in zip(row, names, strict=True) if part > 1]
            placed[f"axis {axis.name}"] = " · ".join(parts) or "1"
    print_facts(
        {
            **placed,
            "reduction": f"{result.request.kind} of {format_bytes(result.num_bytes)} over factors {list(result.factors)}",
            "bound": f"{format_seconds(result.bound.seconds)}: {result.bound.why}",
        }
    )
    click.echo()
    columns = ("time", "bound", "speed-up", "estimate", "in turn")
    table = make_table(*columns, "program", numbers=columns)
    for one in result.programs:
        table.add_row(
            "", format_seconds(one.seconds), format_seconds(result.bound.seconds),
            f"{result.baseline.seconds / one.seconds:.2f}", format_seconds(one.estimate.seconds),
            format_seconds(one.estimate.blocking_seconds), "\n".join(map(str, one.program)),
        )  # fmt: skip
    for base in result.baselines:
        table.add_row("", format_seconds(base.seconds), format_seconds(result.bound.seconds),
                      f"{result.baseline.seconds / base.seconds:.2f}", "", "", f"default: {base.name}")  # fmt: skip
    print_table(table)
    click.echo()
    print_wrapped("", _verdict(result))
    print_wrapped("", result.distance)
    first = result.programs[0]
    if first.replayed is not None:
        print_wrapped("", f"Its plan: {how(first.replayed)}.")
    print_wrapped(
        "",
        f"Times are {first.source}, speed-ups over the best default; the estimates are closed forms, with steps that overlap and"
        f" with steps in turn. Groups of up to {MOST_REPLAYED} devices are replayed unless --quick is given.",
    )
