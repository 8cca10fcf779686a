"""hemiola tune: the best plan for every size of a collective on a system, and why."""

from __future__ import annotations

from pathlib import Path

import click

from hemiola.cli import options
from hemiola.cli.output import make_table, print_json, print_table, print_wrapped
from hemiola.cli.progress import counting, working
from hemiola.cli.requests import placement_options
from hemiola.collectives import CollectiveKind
from hemiola.errors import CollectiveError, UnitError
from hemiola.planning import tune
from hemiola.simulator.runtimes.by_name import with_runtime
from hemiola.topology.presets import load_system
from hemiola.tuning.exports.nccl_tuner import CSV_NAME, README_NAME, nccl_csv, write_nccl_csv
from hemiola.tuning.exports.plan_folder import check_folder, write_plans
from hemiola.tuning.tune import Tuning
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
@click.argument(
    "collective", type=options.CollectiveName([kind.value for kind in WINDOWS]), metavar="COLLECTIVE"
)
@click.option("--system", "system_name", required=True, metavar="S", help="A preset, or a YAML file.")
@click.option(
    "--sizes", type=_sizes, default="4KiB..64MiB", show_default=True, metavar="A..B",
    help="Bytes as nccl-tests counts them: all powers of two from A to B, or one size.",
)  # fmt: skip
@click.option(
    "-o", "output", type=click.Path(path_type=Path), metavar="DIR",
    help="Write plans here, for HEMIOLA_PLANS, and the CSV of NCCL's tuner.",
)  # fmt: skip
@click.option(
    "--root", type=click.IntRange(0), default=0, show_default=True, metavar="R",
    help="The root, or the source of a sendrecv to the last rank.",
)  # fmt: skip
@options.runtime
@placement_options
@options.as_json
def command(
    collective: str, system_name: str, sizes: tuple[int, ...], output: Path | None, root: int,
    runtime_name: str | None, axes_text: str | None,
    placement_text: str | None, over: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Choose the best plan for every size of COLLECTIVE on a system, by simulation.

    All algorithms of the library that fit and synthesized programs are tried, with every protocol that the system has numbers
    for, with more instances and other sizes of messages. With --axes and --over, the groups of a placement run at once.
    """
    system, kind = with_runtime(load_system(system_name), runtime_name), CollectiveKind(collective)
    if kind is CollectiveKind.SENDRECV and root == system.num_ranks - 1:
        raise CollectiveError(
            f"rank {root} is the last, to which a sendrecv goes here; choose another --root"
        )
    if output is not None:
        check_folder(output, collective)
    with counting(f"trying plans for {collective} on {system.name}") as progress:
        tuning = tune(
            kind,
            system,
            sizes,
            axes=axes_text,
            placement=placement_text,
            over=over,
            root=root,
            progress=progress,
        )
    lines = nccl_csv(tuning)
    files: list[Path] = []
    if output is not None:
        with working("writing and proving plans"):
            files = write_plans(tuning, output)
            files += write_nccl_csv(lines, output, system=system.name) if lines else []
    if as_json:
        print_json({**tuning.to_json(), "nccl_tuner": lines, "files": [str(path) for path in files]})
    else:
        _print(tuning, lines, files, output)


def _print(tuning: Tuning, lines: list[str], files: list[Path], output: Path | None) -> None:
    table = make_table(
        "bytes", "time", "default", "bound", "protocol", "channels", "plan",
        numbers=("bytes", "time", "default", "bound", "channels"),
    )  # fmt: skip
    for row in tuning.sizes:
        table.add_row("", format_bytes(row.num_bytes), format_seconds(row.chosen.seconds),
                      format_seconds(row.default.seconds), format_seconds(row.bound.seconds),
                      row.chosen.plan.protocol.value, str(row.chosen.plan.num_channels), row.chosen.name)  # fmt: skip
    print_table(table)
    click.echo(
        "\nTimes are replayed. Default is what the runtime takes by itself, on GPUs what the vendor's library would take; no algorithm beats the bound. Why:\n"
    )
    for window in tuning.windows:
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
        click.echo("\nNothing is faster than what the runtime does by itself, so no plans were written.")
    if any(path.name == CSV_NAME for path in files):
        click.echo(f"Wrote {CSV_NAME}; {README_NAME} beside it says how NCCL loads it.")
