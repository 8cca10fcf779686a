"""Options that several verbs share, and how a size, a bandwidth and a time are read."""

from __future__ import annotations

import re

import click

from hemiola.errors import UnitError
from hemiola.ir.targets import TARGETS
from hemiola.topology.system import RUNTIMES
from hemiola.units import parse_bandwidth, parse_bytes, parse_seconds

MAX_SLOTS = 1 << 20


def size(text: str) -> int:
    """A number of bytes, written 4096, 64MiB or 1GB."""
    try:
        return parse_bytes(text)
    except UnitError as error:
        raise click.BadParameter(str(error)) from None


def bandwidth(text: str) -> float:
    """Bytes per second, written 25GB/s or 200Gbit/s."""
    try:
        return parse_bandwidth(text)
    except UnitError as error:
        raise click.BadParameter(str(error)) from None


def seconds(text: str) -> float:
    """A time, written 5us or 1.5ms."""
    try:
        return parse_seconds(text)
    except UnitError as error:
        raise click.BadParameter(str(error)) from None


class CollectiveName(click.Choice[str]):
    """A collective by its name, also written all_reduce, all-reduce or AllReduce."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name as everybody here writes it."""
        return super().convert(re.sub("[-_]", "", value).lower(), param, ctx)


as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else there."
)
runtime = click.option(
    "--runtime", "runtime_name", type=click.Choice(RUNTIMES),
    help="Who carries plans out; by default whom the system names.",
)  # fmt: skip
slots = click.option(
    "--slots",
    type=click.IntRange(0, MAX_SLOTS),
    metavar="K",
    help="Slots per connection; 0: a send ends only when it is received.",
)
target = click.option(
    "--target", type=click.Choice(list(TARGETS)), help="The kind of file, with the limits of its runtime."
)
root = click.option(
    "--root",
    type=click.IntRange(0),
    metavar="R",
    help="The root of a broadcast, reduce, gather or scatter whose file does not say it.",
)
