"""hemiola lab: a small cluster on this machine, made of network namespaces and shaped links."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hemiola.cli import options
from hemiola.cli.output import make_table, print_json, print_table
from hemiola.cli.progress import working
from hemiola.errors import LabError, UnitError
from hemiola.lab.addresses import names
from hemiola.lab.execute import execute
from hemiola.lab.lab import Lab, Starter, find, take_down
from hemiola.lab.picture import draw
from hemiola.lab.shape import Shape
from hemiola.topology.shapes import shape_names, shape_text
from hemiola.units import parse_seconds

SECONDS_OF_A_COMMAND = 3600.0


def _delay(text: str) -> float:
    try:
        return parse_seconds(text)
    except UnitError as error:
        raise click.BadParameter(str(error)) from None


@click.group("lab")
def command() -> None:
    """Build a real hierarchical network on this machine, run commands in it, and take it down.

    Every host is a network namespace with shaped interfaces; nothing leaves them, and the machine's own network is
    not touched. It takes root. All but exec take --json.
    """


@command.command("up")
@click.argument("shape", metavar="SHAPE")
@click.option("--name", metavar="NAME", help="What to call it; by default as its shape.")
@click.option(
    "--delay", type=_delay, metavar="T", help="From one host to another, such as 2ms; replaces that of SHAPE."
)
@options.as_json
def up(shape: str, name: str | None, delay: float | None, as_json: bool) -> None:
    """Build SHAPE, a shipped one or a system in a YAML file, and let it stand."""
    stem = Path(shape).name.removesuffix(".yaml").removesuffix(".yml")
    wanted = Shape(stem, shape_text(shape), delay)
    with working(f"building {stem}"):
        starter = Starter(name or stem, wanted)
    starter.stay()
    lab = starter.lab
    if as_json:
        print_json(_fields(lab))
        return
    click.echo(f"{lab.name}: {lab.system.about or stem}\n")
    click.echo(draw(lab.system))
    click.echo(f"\nRun a command on every rank with: hemiola lab exec --name {lab.name} -- COMMAND")
    click.echo(f"Take it down with: hemiola lab down {lab.name}")


@command.command("exec", context_settings={"ignore_unknown_options": True})
@click.option("--name", metavar="NAME", help="Which lab; not needed where only one stands.")
@click.option(
    "--on",
    "on_host",
    type=int,
    metavar="HOST",
    help="Start it once on this host (0, 1, …), as mpirun wants it.",
)
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), default=SECONDS_OF_A_COMMAND, show_default=True, metavar="S",
    help="Seconds after which all processes are ended.",
)  # fmt: skip
@click.argument("arguments", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND…")
@click.pass_context
def exec_(
    ctx: click.Context, name: str | None, on_host: int | None, timeout: float, arguments: tuple[str, ...]
) -> None:
    """Start COMMAND on every rank, on its host, with RANK, WORLD_SIZE, MASTER_ADDR… as torchrun sets them.

    The exit code is that of the first rank that failed, which ends all others; 124 when the time is over.
    """
    ctx.exit(execute(find(name), arguments, on_host=on_host, timeout=timeout))


@command.command("down")
@click.argument("name", required=False, metavar="[NAME]")
@click.option("--all", "everything", is_flag=True, help="Take down every lab.")
@options.as_json
def down(name: str | None, everything: bool, as_json: bool) -> None:
    """Take a lab down, with every process in it; the only one where no NAME is given."""
    if everything and name is not None:
        raise LabError("give a name or --all, not both")
    ended = names() if everything else [find(name).name]
    for each in ended:
        take_down(each)
    if as_json:
        print_json({"ended": ended})
    else:
        click.echo(f"ended {', '.join(ended)}" if ended else "no lab stood")


@command.command("list")
@options.as_json
def list_(as_json: bool) -> None:
    """List the labs that stand, and the shapes that are shipped."""
    labs = [find(name) for name in names()]
    if as_json:
        print_json({"labs": [_fields(lab) for lab in labs], "shapes": shape_names()})
        return
    table = make_table("lab", "hosts", "ranks", "about", numbers=["hosts", "ranks"])
    for lab in labs:
        table.add_row("", lab.name, str(lab.system.num_hosts), str(lab.system.num_ranks), lab.system.about)
    if labs:
        print_table(table)
    else:
        click.echo("no lab stands")
    click.echo(f"\nshapes: {', '.join(shape_names())}")


def _fields(lab: Lab) -> dict[str, Any]:
    system, wiring = lab.system, lab.wiring
    return {
        "name": lab.name,
        "pid": lab.pid,
        "hosts": [
            {
                "name": wiring.host_names[host],
                "addresses": [nic.address for nic in wiring.nics_of(host)],
                "ranks": [rank for rank, its in enumerate(system.host_of_rank) if its == host],
            }
            for host in range(system.num_hosts)
        ],
    }
