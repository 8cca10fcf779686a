"""hemiola calibrate: a system whose constants are those under which replays take as long as was measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from hemiola.cli import options
from hemiola.cli.output import make_table, print_facts, print_json, print_table
from hemiola.cli.progress import working
from hemiola.collectives import FACTS, CollectiveKind
from hemiola.cost.calibrate.calibrate import LARGE_BYTES, Calibration, calibrate
from hemiola.cost.time_source import TimeSource
from hemiola.errors import FormatError
from hemiola.simulator.runtimes.by_name import with_runtime
from hemiola.topology.parse.measured_times import read_measurements
from hemiola.topology.presets import load_system
from hemiola.topology.write_system import write_system
from hemiola.tuning.measured_plans import measured_runs
from hemiola.units import format_bandwidth, format_bytes, format_seconds

COLLECTIVES = [kind.value for kind in FACTS if kind is not CollectiveKind.CUSTOM]


@click.command("calibrate")
@click.argument("logs", nargs=-1, required=True, metavar="LOG...", type=click.Path(path_type=Path))
@click.option("--system", "system_name", required=True, metavar="S", help="A preset, or a YAML file.")
@click.option(
    "--collective", type=click.Choice(COLLECTIVES), metavar="C",
    help="What was measured, where the files and their names do not say it.",
)  # fmt: skip
@options.runtime
@click.option("-o", "output", type=click.Path(path_type=Path), metavar="FILE", help="Write the system here.")
@options.as_json
def command(
    logs: tuple[Path, ...], system_name: str, collective: str | None, runtime_name: str | None, output: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Fit the constants of a system, so that replays take as long as was measured.

    LOG is a log of nccl-tests or rccl-tests, their CSV or JSON, what hemiola bench --json prints, or a CSV with the columns plan,
    collective, bytes and seconds, whose plans are files beside it. Without a plan, what the vendor's library would take is
    replayed. At most one constant is fitted for four rows, to every second size; the error is that of the other sizes.
    """
    system = with_runtime(load_system(system_name), runtime_name)
    runs, notes = [], []
    for path in logs:
        rows = read_measurements(path, kind=collective, num_ranks=system.num_ranks)
        found_runs, left_out = measured_runs(rows, path, system)
        runs += found_runs
        notes += left_out
    with working("fitting the replay"):
        found = calibrate(runs, system)
    if output is not None:
        _write(output, write_system(found.system))
    if as_json:
        print_json(_fields(found, notes))
    else:
        _print(found, notes)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise FormatError(f"{path}: cannot be written: {error.strerror}") from None


def _fields(found: Calibration, notes: Sequence[str]) -> dict[str, Any]:
    rows = zip(found.runs, found.predicted.tolist(), found.fitted.tolist(), strict=True)
    return {
        "system": found.system.name,
        "parameters": found.parameters(),
        "num_constants": len(found.constants),
        "mean_error": found.mean_error(),
        "mean_error_from_64MiB": found.mean_error(LARGE_BYTES),
        "raised_bandwidth": found.raised,
        "notes": list(notes),
        "rows": [
            {
                "plan": run.name or None,
                "ran": run.described(found.system),
                "collective": run.kind,
                "ranks": run.num_ranks,
                "bytes": run.num_bytes,
                "in_place": run.in_place,
                "seconds": run.seconds,
                "source": TimeSource.MEASURED,
                "predicted_seconds": predicted,
                "fitted": fitted,
                "protocol": run.protocol(found.system),
            }
            for run, predicted, fitted in rows
        ],
    }


def _print(found: Calibration, notes: Sequence[str]) -> None:
    table = make_table(
        "what ran", "collective", "bytes", "measured", "predicted", "off", "fitted",
        numbers=("bytes", "measured", "predicted", "off"),
    )  # fmt: skip
    for run, predicted, fitted in zip(
        found.runs, found.predicted.tolist(), found.fitted.tolist(), strict=True
    ):
        table.add_row(
            "", run.described(found.system), run.kind, format_bytes(run.num_bytes), format_seconds(run.seconds),
            format_seconds(predicted), f"{100 * (predicted / run.seconds - 1):+.1f}%", "yes" if fitted else "no",
        )  # fmt: skip
    print_table(table)
    click.echo()
    print_facts({name: _shown(name, value) for name, value in found.parameters().items()})
    click.echo()
    print_facts(
        {
            "constants fitted": f"{len(found.constants)}, to {int(found.fitted.sum())} of {len(found.runs)} rows",
            "mean error of rows not fitted": _percent(found.mean_error()),
            f"the same from {format_bytes(LARGE_BYTES)}": _percent(found.mean_error(LARGE_BYTES)),
        }
    )
    for note in notes:
        click.echo(note)
    if found.raised > 1:
        click.echo(
            f"Some rows are faster than the described links can be; all links were raised {found.raised:.2f} times."
        )


def _shown(name: str, value: float) -> str:
    if name.endswith("efficiency"):
        return f"{100 * value:.1f}% of the described bandwidth"
    return format_bandwidth(value) if name.endswith("bandwidth") else format_seconds(value)


def _percent(part: float | None) -> str:
    return "no such rows" if part is None else f"{100 * part:.1f}%"
