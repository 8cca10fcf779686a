"""``draw``: a tree of a lab for the terminal, with its switches, cables, hosts and ranks."""

from __future__ import annotations

from collections.abc import Iterator

from hemiola.lab.wiring import Cable, LabNic, wire
from hemiola.topology.system import System
from hemiola.units import format_seconds

Branch = tuple[str, list["Branch"]]
"""A line of the tree, and the branches below it."""


def draw(system: System) -> str:
    """The tree of a system as the lab builds it, with one line per switch and per interface of a host."""
    wiring = wire(system)
    tops = [name for name in wiring.switches if name not in {uplink.switch for uplink in wiring.uplinks}]

    def switch(name: str, before: str = "") -> Branch:
        racks = [switch(up.switch, f"{_rate(up.cable)} ") for up in wiring.uplinks if up.cable.switch == name]
        hosts = [_host(system, nic) for nic in wiring.nics if nic.cable.switch == name]
        return f"{before}{name}", [*racks, *hosts]

    return "\n".join(line for top in tops for line in _lines(switch(top)))


def _host(system: System, nic: LabNic) -> Branch:
    ranks = [rank for rank, host in enumerate(system.host_of_rank) if host == nic.host]
    num_nics = system.link_of(system.hosts[nic.host]).num
    behind = [rank for number, rank in enumerate(ranks) if f"eth{number % num_nics}" == nic.interface]
    name = system.host_name(nic.host)
    who = "rank" if len(behind) == 1 else "ranks"
    return f"{_rate(nic.cable)} {name} {nic.interface} {nic.address}  {who} {' '.join(map(str, behind))}", []


def _rate(cable: Cable) -> str:
    """A cable with its rate, or both rates where they differ, and its delay."""
    up, down = (f"{rate * 8 / 1e6:g}" for rate in (cable.rate_up, cable.rate_down))
    rate = f"{up} Mbit/s" if up == down else f"{up} up, {down} down Mbit/s"
    delay = f", {format_seconds(cable.delay_seconds)}" if cable.delay_seconds else ""
    return f"── {rate}{delay} ──"


def _lines(branch: Branch, first: str = "", indent: str = "") -> Iterator[str]:
    text, below = branch
    yield first + text
    for number, child in enumerate(below):
        last = number == len(below) - 1
        yield from _lines(child, indent + (" └" if last else " ├"), indent + ("  " if last else " │"))
