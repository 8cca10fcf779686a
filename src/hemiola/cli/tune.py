"""hemiola tune: the best plan for every size of a collective on a system, and why."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from hemiola.cli import options
from hemiola.cli.output import make_table, print_json, print_table, print_wrapped
from hemiola.cli.progress import working
from hemiola.errors import CollectiveError, UnitError
from hemiola.topology.presets import load_system
from hemiola.tuning.candidates import Workshop
from hemiola.tuning.exports import check_folder, nccl_csv, write_nccl_csv, write_plans
from hemiola.tuning.tune import Row, Window, tune
from hemiola.tuning.windows import WINDOWS
from hemiola.units import format_bytes, format_seconds, parse_size_range


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = parse_size_range(text)
    except UnitError as error:
        raise click.BadParameter(str(error)) from None
    if sizes[0] == 0:
        raise click.BadParameter("sizes begin above zero")
    return sizes


@click.command("tune")
@click.argument("collective", type=click.Choice(list(WINDOWS)), metavar="COLLECTIVE")
@click.option("--system", "system_name", required=True, metavar="S", help="A preset, or a YAML file.")
@click.option(
    "--sizes", type=_sizes, default="4KiB..64MiB", show_default=True, metavar="A..B",
    help="Input bytes of a rank: all powers of two from A to B, or one size.",
)  # fmt: skip
@click.option(
    "-o", "output", type=click.Path(path_type=Path), metavar="DIR",
    help="Write plans here, for HEMIOLA_PLANS, and the CSV of NCCL's tuner.",
)  # fmt: skip
@click.option(
    "--root", type=click.IntRange(0), default=0, show_default=True, metavar="R",
    help="The root, or the source of a sendrecv to the last rank.",
)  # fmt: skip
@options.as_json
def command(
    collective: str, system_name: str, sizes: tuple[int, ...], output: Path | None, root: int, as_json: bool
) -> None:
    """Choose the best plan for every size of COLLECTIVE on a system, by simulation.

    All algorithms of the library that fit are tried, with every protocol that the system has numbers for, and with
    more instances where that helps. What the runtime does by itself is kept unless another plan is clearly faster.
    """
    system = load_system(system_name)
    peer = system.num_ranks - 1 if collective == "sendrecv" else 0
    if collective == "sendrecv" and root == peer:
        raise CollectiveError(
            f"rank {root} is the last, to which a sendrecv goes here; choose another --root"
        )
    if output is not None:
        check_folder(output, collective)
    workshop = Workshop(collective, system, root, peer)
    with working(f"trying plans for {collective} on {system.num_ranks} ranks"):
        windows = tune(workshop, sizes)
    lines = nccl_csv(windows, workshop)
    files: list[Path] = []
    if output is not None:
        with working("writing and proving plans"):
            files = write_plans(windows, workshop, output)
            files += [write_nccl_csv(lines, output)] if lines else []
    if as_json:
        print_json(_fields(collective, workshop, windows, lines, files))
    else:
        _print(windows, lines, files, output)


def _fields(
    collective: str, workshop: Workshop, windows: Sequence[Window], lines: list[str], files: list[Path]
) -> dict[str, Any]:
    return {
        "collective": collective,
        "system": workshop.system.name,
        "num_ranks": workshop.num_ranks,
        "windows": [_window_fields(window) for window in windows],
        "nccl_tuner": lines,
        "files": [str(path) for path in files],
    }


def _window_fields(window: Window) -> dict[str, Any]:
    candidate, plan = window.chosen.candidate, window.chosen.plan
    return {
        "min_bytes": window.min_bytes,
        "max_bytes": window.max_bytes,
        "algorithm": plan.name if candidate is None else candidate.algorithm,
        "parameters": {} if candidate is None else dict(candidate.parameters),
        "is_default": candidate is None,
        "instances": 1 if candidate is None else candidate.instances,
        "channels": plan.num_channels,
        "protocol": plan.protocol.value,
        "tile_bytes": window.tile_bytes,
        "why": window.why,
        "rows": [_row_fields(row) for row in window.rows],
    }


def _row_fields(row: Row) -> dict[str, Any]:
    return {
        "bytes": row.num_bytes,
        "seconds": row.chosen.seconds,
        "default_seconds": row.default.seconds,
        "bound_seconds": row.bound.seconds,
    }


def _print(windows: Sequence[Window], lines: list[str], files: list[Path], output: Path | None) -> None:
    table = make_table(
        "bytes", "time", "default", "bound", "protocol", "channels", "plan",
        numbers=("bytes", "time", "default", "bound", "channels"),
    )  # fmt: skip
    for window in windows:
        for row in window.rows:
            table.add_row("", format_bytes(row.num_bytes), format_seconds(row.chosen.seconds),
                          format_seconds(row.default.seconds), format_seconds(row.bound.seconds),
                          row.chosen.plan.protocol.value, str(row.chosen.plan.num_channels), row.chosen.name)  # fmt: skip
    print_table(table)
    click.echo("\nDefault is what the runtime takes by itself; no algorithm beats the bound. Why:\n")
    for window in windows:
        print_wrapped(f"  {format_bytes(window.min_bytes)} and more: ", window.why)
    if lines:
        click.echo("\nThe best that NCCL has too, for its tuner plugin:\n")
        for line in lines:
            click.echo(f"  {line}")
    if output is not None:
        _print_written(files, output)


def _print_written(files: list[Path], output: Path) -> None:
    num_plans = sum(path.suffix == ".plan" for path in files)
    if num_plans:
        click.echo(
            f"\nWrote {num_plans} plans to {output}; HEMIOLA_PLANS={output} makes the runtime use them."
        )
    else:
        click.echo(
            "\nNothing is clearly faster than what the runtime does by itself, so no plans were written."
        )
