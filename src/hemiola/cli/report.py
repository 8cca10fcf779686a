"""hemiola report: the page of a plan again, from its folder."""

from __future__ import annotations

from pathlib import Path

import click

from hemiola.cli import options
from hemiola.cli.output import print_json
from hemiola.report.page import write_page


@click.command("report")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@options.as_json
def command(folder: Path, as_json: bool) -> None:
    """Make report.html in DIR from the job_plan.json that `hemiola plan -o DIR` wrote there."""
    page = write_page(folder)
    if as_json:
        print_json({"page": str(page)})
    else:
        click.echo(f"Wrote {page}.")
