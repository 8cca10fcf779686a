"""``system_tree``: a system as text, with a line for each level and for each kind of unit that differs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from hemiola.topology.system import Fabric, Level, Link, Path, System
from hemiola.units import format_bandwidth, format_seconds

MOST_LINES = 12
"""The most lines of differences that are printed; the others are counted."""


def system_tree(system: System) -> str:
    """The lines of a system, outermost level first."""
    about = f" ({system.about})" if system.about else ""
    lines = [
        f"{system.name}: {_count(system.num_ranks, 'device')}, {_count(system.num_hosts, 'host')}{about}"
    ]
    for depth, level in enumerate(system.levels):
        lines.append(f"{'   ' * depth}└─ {_level(system, depth + 1, level)}")
    lines += _differences(system)
    if rates := _rates(system):
        lines.append(f"a device {rates}")
    lines += [f"protocol {name}: {text}" for name, text in _protocols(system)]
    if system.host_names:
        first, last = system.host_names[0], system.host_names[-1]
        lines.append(f"hosts are called {first}" + (f" to {last}" if last != first else ""))
    return "\n".join(lines) + "\n"


def link_words(link: Link) -> str:
    """The links of a unit: ``8 links of 25GB/s each way, 1us``."""
    if link.bandwidth_out == link.bandwidth_in:
        speed = f"{format_bandwidth(link.bandwidth_out)} each way"
    else:
        speed = f"{format_bandwidth(link.bandwidth_out)} out, {format_bandwidth(link.bandwidth_in)} in"
    many = f"{link.num} links of " if link.num > 1 else ""
    latency = f", {format_seconds(link.latency)}" if link.latency else ""
    return f"{many}{speed}{latency}{_behind(link)}"


def _behind(link: Link) -> str:
    """Which devices use which link; empty where the system does not say it, or every device has its own link in order."""
    if not link.behind or link.behind == tuple(range(link.num)):
        return ""
    inside = defaultdict(list)
    for device, number in enumerate(link.behind):
        inside[number].append(device)
    return (
        ", devices "
        + " | ".join(_ranges(inside[number]) or "none" for number in range(link.num))
        + " behind them"
    )


def _level(system: System, depth: int, level: Level) -> str:
    sizes = _sizes(system, depth)
    fewest, most = min(sizes), max(sizes)
    count = f"{most}" if fewest == most else f"{fewest} to {most}"
    link = link_words(level.link) if level.link else _edges(level.fabric)
    return f"{level.name} [{count}]: {link}, {_fabric(level.fabric)}"


def _sizes(system: System, depth: int) -> list[int]:
    """How many units of a level lie in each present unit of the level outside."""
    counts = dict.fromkeys(system.units(depth - 1), 0)
    for path in system.units(depth):
        counts[path[:-1]] += 1
    return list(counts.values())


def _edges(fabric: Fabric) -> str:
    kinds = sorted({edge.bandwidth for edge in fabric.edges}, reverse=True)
    parts = (
        f"{sum(edge.bandwidth == kind for edge in fabric.edges)} of {format_bandwidth(kind)}"
        for kind in kinds
    )
    return f"{_count(len(fabric.edges), 'edge')} ({', '.join(parts)} each way)"


def _fabric(fabric: Fabric) -> str:
    kind = {"switch": "on a switch", "rails": "on rails", "mesh": "in a mesh"}[fabric.kind]
    if fabric.bandwidth != math.inf:
        kind += f" of {format_bandwidth(fabric.bandwidth)}"
    skills = [word for word, has in (("adds", fabric.reduces), ("multicasts", fabric.multicasts)) if has]
    return f"{kind} that {' and '.join(skills)}" if skills else kind


def _differences(system: System) -> Iterable[str]:
    """The lines of units that are missing or have other links; equal ones are on one line."""
    groups: dict[tuple[int, str], list[Path]] = defaultdict(list)
    for path, link in sorted(system.exceptions.items()):
        groups[len(path), link_words(link)].append(path)
    for path in sorted(system.missing):
        groups[len(path), "missing"].append(path)
    lines = [
        f"except {system.describe(paths[0])}{f' and {len(paths) - 1} more' if len(paths) > 1 else ''}: {what}"
        for (_, what), paths in groups.items()
    ]
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], *([f"and {_count(more, 'more difference')}"] if more > 0 else [])]


def _rates(system: System) -> str:
    compute = system.compute
    words = {
        "adds {}": compute.add_bandwidth,
        "copies {}": compute.copy_bandwidth,
        "all of a host add {}": compute.host_add_bandwidth,
        "all of a host copy {}": compute.host_copy_bandwidth,
        "adds or copies {}": compute.core_bandwidth,
        "all of a host add or copy {}": compute.host_core_bandwidth,
    }
    return ", ".join(word.format(format_bandwidth(rate)) for word, rate in words.items() if rate != math.inf)


def _protocols(system: System) -> Iterable[tuple[str, str]]:
    for name, protocol in system.protocols.items():
        limit = protocol.threadblock_bandwidth
        each = f", {format_bandwidth(limit)} per threadblock" if limit != math.inf else ""
        yield (
            name,
            f"{protocol.efficiency:.4g} of a link, {format_seconds(protocol.message_seconds)} per step{each}",
        )


def _ranges(numbers: list[int]) -> str:
    """Sorted numbers with runs shortened: ``0-3,7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
