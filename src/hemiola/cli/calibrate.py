"""hemiola calibrate: a system whose bandwidths, latencies and protocols are those that were measured on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hemiola.cli import options
from hemiola.cli.output import make_table, print_facts, print_json, print_table
from hemiola.cli.progress import working
from hemiola.cost.calibrate.calibrate import LARGE_BYTES, STEPS, Calibration, calibrate
from hemiola.errors import FormatError
from hemiola.topology.parse.measured_times import read_measurements
from hemiola.topology.presets import load_system
from hemiola.topology.write_system import write_system
from hemiola.units import format_bytes, format_seconds


@click.command("calibrate")
@click.argument("logs", nargs=-1, required=True, metavar="LOG...", type=click.Path(path_type=Path))
@click.option("--system", "system_name", required=True, metavar="S", help="A preset, or a YAML file.")
@click.option(
    "--collective", type=click.Choice(list(STEPS)), metavar="C",
    help="What was measured, where the files and their names do not say it.",
)  # fmt: skip
@click.option("-o", "output", type=click.Path(path_type=Path), metavar="FILE", help="Write the system here.")
@options.as_json
def command(
    logs: tuple[Path, ...], system_name: str, collective: str | None, output: Path | None, as_json: bool
) -> None:
    """Fit the bandwidths, latencies and protocols of a system to measured times.

    LOG is a log of nccl-tests or rccl-tests, a CSV with sizes and times, or what hemiola bench --json prints. Every
    second row is fitted, at most seven constants in all; the error is that of the other rows.
    """
    system = load_system(system_name)
    measurements = [
        one for path in logs for one in read_measurements(path, kind=collective, num_ranks=system.num_ranks)
    ]
    with working("fitting"):
        found = calibrate(measurements, system)
    if output is not None:
        _write(output, write_system(found.system))
    if as_json:
        print_json(_fields(found))
    else:
        _print(found)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise FormatError(f"{path}: cannot be written: {error.strerror}") from None


def _fields(found: Calibration) -> dict[str, Any]:
    rows = zip(
        found.measurements, found.predicted.tolist(), found.fitted.tolist(), found.protocols, strict=True
    )
    return {
        "system": found.system.name,
        "parameters": found.parameters(),
        "mean_error": found.mean_error(),
        "mean_error_from_64MiB": found.mean_error(LARGE_BYTES),
        "num_below_bound": len(found.below_bound),
        "rows": [
            {
                "collective": one.kind,
                "ranks": one.num_ranks,
                "bytes": one.num_bytes,
                "seconds": one.seconds,
                "predicted_seconds": predicted,
                "fitted": fitted,
                "protocol": protocol,
            }
            for one, predicted, fitted, protocol in rows
        ],
    }


def _print(found: Calibration) -> None:
    table = make_table(
        "collective", "ranks", "bytes", "measured", "predicted", "off", "protocol", "fitted",
        numbers=("ranks", "bytes", "measured", "predicted", "off"),
    )  # fmt: skip
    rows = zip(
        found.measurements, found.predicted.tolist(), found.protocols, found.fitted.tolist(), strict=True
    )
    for one, predicted, protocol, fitted in rows:
        table.add_row(
            "", one.kind, str(one.num_ranks), format_bytes(one.num_bytes), format_seconds(one.seconds),
            format_seconds(predicted), f"{100 * (predicted / one.seconds - 1):+.1f}%", protocol,
            "yes" if fitted else "no",
        )  # fmt: skip
    print_table(table)
    click.echo()
    print_facts({name: _shown(name, value) for name, value in found.parameters().items()})
    click.echo()
    print_facts(
        {
            "mean error of rows not fitted": _percent(found.mean_error()),
            f"the same from {format_bytes(LARGE_BYTES)}": _percent(found.mean_error(LARGE_BYTES)),
        }
    )
    if found.below_bound:
        click.echo(
            f"\n{len(found.below_bound)} rows are faster than the system as described can be: its bandwidths or latencies "
            "are wrong.\nWhere protocols get more than its links have, these were raised."
        )


def _shown(name: str, value: float) -> str:
    if name.endswith("seconds"):
        return format_seconds(value)
    return f"{100 * value:.1f}% of the described bandwidth"


def _percent(part: float | None) -> str:
    return "no such rows" if part is None else f"{100 * part:.1f}%"
