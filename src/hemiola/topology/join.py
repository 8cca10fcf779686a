"""``join``: builds one system from the description of a host and of the switches between hosts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hemiola.errors import TopologyError
from hemiola.topology.host_facts import HostFacts
from hemiola.topology.inside_host import Given, ImportReport, levels_inside
from hemiola.topology.nics import nic_link
from hemiola.topology.parse.fields import is_short, shown
from hemiola.topology.parse.slurm import Switch
from hemiola.topology.parse.yaml_system import MAX_DEVICES
from hemiola.topology.system import Fabric, Level, Link, Path, System

SWITCH_LEVELS = ("leaf", "spine", "core")
"""The names of the levels of switches, the one next to the hosts first; further levels have numbers."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A system, and notes for the user about how it was made."""

    system: System
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostLayout:
    """How hosts are connected to switches: the counts of every level, the missing units, and the hosts in order."""

    counts: tuple[int, ...]
    """The count of every level of switches, outermost first, and then that of the hosts."""
    missing: frozenset[Path]
    hosts: tuple[str, ...]


def join(
    name: str,
    host: HostFacts,
    switches: Sequence[Switch] = (),
    hosts: Sequence[str] = (),
    given: Given | None = None,
) -> Joined:
    """The system of equal hosts below some switches; TopologyError lists all values that are still missing.

    Without switches, one switch connects all hosts. Without names of hosts, all hosts below the switches are taken.
    Without both there is one host.
    """
    if not is_short(name):
        raise TopologyError(f"expected a name such as my-cluster for the system, found {shown(name)}")
    given, report = given or Given(), ImportReport()
    inside = levels_inside(host, given, report)
    layout = _lay_out_hosts(switches, hosts)
    num_hosts = len(layout.hosts) or 1
    outer: tuple[Level, ...] = ()
    if num_hosts > 1 or len(inside.levels) > 1:
        link = nic_link(host, inside, given, report)
        fabric = Fabric("rails") if given.rails else Fabric()
        outer = (*_switch_levels(layout, given, report), Level("host", layout.counts[-1], link, fabric))
    levels = (*outer, *inside.levels)
    if report.missing:
        raise TopologyError("; ".join(report.missing))
    if math.prod(level.count for level in levels) > MAX_DEVICES:
        raise TopologyError(
            f"{name}: the levels multiply to more than {MAX_DEVICES} devices; give fewer --hosts"
        )
    if not (given.nic_latency or given.device_latency or given.uplink_latency):
        report.notes.append(
            "latencies are 0, for no file has them: give --nic-latency and --device-latency, or calibrate the system"
        )
    system = System(
        name,
        levels,
        f"from {host.source}" if is_short(host.source[:150]) else "",
        missing=layout.missing if outer else frozenset(),
        host_names=layout.hosts,
    )
    return Joined(system, tuple(report.notes))


def _switch_levels(layout: HostLayout, given: Given, report: ImportReport) -> list[Level]:
    """The levels of switches, outermost first."""
    counts = layout.counts[:-1]
    levels = []
    for number, count in enumerate(reversed(counts)):
        name = SWITCH_LEVELS[number] if number < len(SWITCH_LEVELS) else f"switch{number + 1}"
        known = given.uplink_bandwidths[number] if number < len(given.uplink_bandwidths) else None
        bandwidth = report.need(
            None,
            known,
            f"the bandwidth from a {name} switch up is not in the files: give --uplink-bandwidth, such as 800GB/s, all "
            f"uplinks of one switch together{', once for each level of switches, the one next to the hosts first' if len(counts) > 1 else ''}",
        )
        levels.append(Level(name, count, Link(bandwidth, bandwidth, given.uplink_latency or 0.0)))
    if len(given.uplink_bandwidths) > len(counts):
        report.notes.append(
            f"{len(given.uplink_bandwidths)} uplink bandwidths are given, {len(counts)} used: one for each level of switches"
        )
    return levels[::-1]


def _lay_out_hosts(switches: Sequence[Switch], hosts: Sequence[str]) -> HostLayout:
    """The layout of the hosts; switches with none of them below are left out."""
    if not switches:
        return HostLayout((len(hosts) or 1,), frozenset(), tuple(hosts))
    known = {host for switch in switches for host in switch.all_hosts()}
    wanted = set(hosts) or known
    strange = next((host for host in hosts if host not in known), None)
    if strange is not None:
        raise TopologyError(
            f"the host {shown(strange)} is on no switch of the fabric; name it there, or leave it out of --hosts"
        )
    pruned = [found for switch in switches if (found := _prune(switch, wanted)) is not None]
    if len(pruned) != 1:
        if not pruned:
            raise TopologyError(
                "there is no host on any switch of the fabric; expected Nodes= on some of them"
            )
        raise TopologyError(
            f"the switches {shown(pruned[0].name)} and {shown(pruned[1].name)} hang on none that joins them; expected one "
            "above all, as in SwitchName=spine Switches=leaf[1-2]"
        )
    root = pruned[0]
    while len(root.switches) == 1 and not root.hosts:
        root = root.switches[0]
    return _lay_out(root)


def _prune(switch: Switch, wanted: set[str]) -> Switch | None:
    """A switch with only the hosts that are wanted; None where none is left."""
    below = tuple(found for child in switch.switches if (found := _prune(child, wanted)) is not None)
    hosts = tuple(host for host in switch.hosts if host in wanted)
    return Switch(switch.name, below, hosts) if below or hosts else None


def _lay_out(root: Switch) -> HostLayout:
    """The layout below a switch: a level has the largest count found there; units that smaller switches lack are missing.

    With leaves of 21, 22 and 21 hosts there are 3 leaves of 22, and the last host of the first and the third is
    missing.
    """
    rows: list[list[tuple[Path, Switch]]] = [[((), root)]]
    while any(switch.switches for _, switch in rows[-1]):
        mixed = next((switch for _, switch in rows[-1] if switch.hosts), None)
        if mixed is not None:
            raise TopologyError(
                f"hosts hang on {shown(mixed.name)}, but other hosts further down; expected all hosts equally far from the top"
            )
        rows.append(
            [((*path, n), child) for path, switch in rows[-1] for n, child in enumerate(switch.switches)]
        )
    widths = [max(len(switch.switches) for _, switch in row) for row in rows[:-1]]
    widths.append(max(len(switch.hosts) for _, switch in rows[-1]))
    if math.prod(widths) > MAX_DEVICES:
        raise TopologyError(f"the fabric is too uneven: its levels multiply to more than {MAX_DEVICES} hosts")
    missing: set[Path] = set()
    for width, row in zip(widths, rows, strict=True):
        for path, switch in row:
            missing |= {(*path, n) for n in range(len(switch.switches or switch.hosts), width)}
    return HostLayout(
        tuple(widths), frozenset(missing), tuple(host for _, switch in rows[-1] for host in switch.hosts)
    )
