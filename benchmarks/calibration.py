"""How well few constants explain a public table: all-reduce on one node of eight H200, fitted on every second row."""

from __future__ import annotations

import json
from pathlib import Path

import click

from hemiola.cost.calibrate.calibrate import LARGE_BYTES, calibrate
from hemiola.topology.parse.measured_times import read_measurements
from hemiola.topology.presets import load_system
from hemiola.units import format_bytes

TABLE = Path(__file__).parents[2] / "shared" / "data" / "busbw" / "h200x8_allreduce.csv"


@click.command()
@click.option("--table", type=click.Path(path_type=Path), default=TABLE, help="sizes and bandwidths")
@click.option("--system", default="hgx-h200:1", show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(table: Path, system: str, as_json: bool) -> None:
    """Constants, and the mean absolute error of the rows that were not fitted."""
    described = load_system(system)
    found = calibrate(read_measurements(table, num_ranks=described.num_ranks), described)
    overall, large = found.mean_error(), found.mean_error(LARGE_BYTES)
    assert overall is not None
    assert large is not None
    if as_json:
        errors = {"mean_error": overall, "mean_error_from_64MiB": large}
        print(json.dumps({"parameters": found.parameters(), **errors}))
        return
    print(f"{table.name} on {system}, {found.constants.num_parameters} constants fitted to every second row")
    for name, value in found.parameters().items():
        print(f"  {name:<20}  {value:.4g}")
    print(f"  mean error of the other {int((~found.fitted).sum())} rows: {100 * overall:.2f} %")
    print(f"  the same from {format_bytes(LARGE_BYTES)}: {100 * large:.2f} %")


if __name__ == "__main__":
    main()
