"""``write_system``: a system as YAML that reads back as the same system."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable
from typing import Any

import yaml

from hemiola.topology.meshes import form_of
from hemiola.topology.system import Compute, Edge, Fabric, Level, Link, Path, ProtocolCosts, System
from hemiola.units import format_bandwidth, format_seconds, parse_bandwidth, parse_seconds


def write_system(system: System) -> str:
    """The YAML of a system, with a line for each level, exception and protocol; default values are left out."""
    lines = [f"name: {_flow(system.name)}"]
    if system.about:
        lines.append(f"about: {_flow(system.about)}")
    lines += ["levels:", *(f"  - {_flow(_level(level))}" for level in system.levels)]
    changes: list[tuple[Path, dict[str, Any]]] = [(path, {"missing": True}) for path in system.missing]
    for path, link in system.exceptions.items():
        changes.append((path, {"link": _link(link, system.levels[len(path) - 1].link)}))
    if changes:
        lines.append("exceptions:")
        lines += [
            f"  - {_flow({**_unit(system, path), **what})}" for path, what in sorted(changes, key=_place)
        ]
    if compute := _rates(system.compute):
        lines.append(f"compute: {_flow(compute)}")
    if system.protocols:
        lines.append("protocols:")
        lines += [f"  {_flow(name)}: {_flow(_protocol(one))}" for name, one in system.protocols.items()]
    if system.runtime != "hemiola":
        lines.append(f"runtime: {_flow(system.runtime)}")
    if system.host_names:
        lines.append(f"host_names: {_flow(list(system.host_names))}")
    return "\n".join(lines) + "\n"


def _flow(value: object) -> str:
    """A value as YAML on one line."""
    text = yaml.safe_dump(
        value, default_flow_style=True, width=sys.maxsize, sort_keys=False, allow_unicode=True
    )
    return text.removesuffix("...\n").rstrip("\n")


def _place(change: tuple[Path, dict[str, Any]]) -> tuple[Path, bool]:
    return change[0], "missing" in change[1]


def _unit(system: System, path: Path) -> dict[str, int]:
    return {level.name: number for level, number in zip(system.levels, path, strict=False)}


def _level(level: Level) -> dict[str, Any]:
    written: dict[str, Any] = {"name": level.name, "count": level.count}
    if level.link is not None:
        written["link"] = _link(level.link, None)
    fabric = _fabric(level.fabric, level.count)
    if fabric:
        written["fabric"] = fabric["kind"] if list(fabric) == ["kind"] else fabric
    return written


def _link(link: Link, usual: Link | None) -> dict[str, Any]:
    """The keys of a link that differ from ``usual``."""
    written: dict[str, Any] = {}
    usual = usual or Link(0.0, 0.0)
    out, in_ = link.bandwidth_out, link.bandwidth_in
    if out == in_ and (usual.bandwidth_out, usual.bandwidth_in) != (out, in_):
        written["bandwidth"] = _bandwidth(out)
    elif (usual.bandwidth_out, usual.bandwidth_in) != (out, in_):
        written |= {"bandwidth_out": _bandwidth(out), "bandwidth_in": _bandwidth(in_)}
    if link.latency != usual.latency:
        written["latency"] = _seconds(link.latency)
    if link.num != usual.num:
        written["num"] = link.num
    if link.behind != (usual.behind if link.num == usual.num else ()):
        written["behind"] = list(link.behind)
    return written


def _fabric(fabric: Fabric, count: int) -> dict[str, Any]:
    written: dict[str, Any] = {} if fabric.kind == "switch" else {"kind": fabric.kind}
    if fabric.bandwidth != math.inf:
        written["bandwidth"] = _bandwidth(fabric.bandwidth)
    if fabric.reduces:
        written["reduces"] = True
    if fabric.multicasts:
        written["multicasts"] = True
    if fabric.edges:
        form = form_of(fabric.edges, count)
        alike = {key: value for key, value in _edge(fabric.edges[0]).items() if key != "between"}
        written["edges"] = {"form": form, **alike} if form else [_edge(edge) for edge in fabric.edges]
    return written


def _edge(edge: Edge) -> dict[str, Any]:
    written = {"between": [edge.first, edge.second], "bandwidth": _bandwidth(edge.bandwidth)}
    return {**written, "latency": _seconds(edge.latency)} if edge.latency else written


def _rates(compute: Compute) -> dict[str, Any]:
    counts = ("host_cores", "threadblocks")
    names = [field.name for field in dataclasses.fields(Compute) if field.name not in counts]
    rates = {name: _bandwidth(getattr(compute, name)) for name in names if getattr(compute, name) != math.inf}
    return rates | {name: getattr(compute, name) for name in counts if getattr(compute, name) is not None}


def _protocol(protocol: ProtocolCosts) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for field in dataclasses.fields(ProtocolCosts):
        value = getattr(protocol, field.name)
        if value == field.default:
            continue
        bandwidth, part = field.name.endswith("bandwidth"), field.name == "efficiency"
        written[field.name] = float(value) if part else _bandwidth(value) if bandwidth else _seconds(value)
    return written


def _bandwidth(amount: float) -> str | float:
    return _exact(amount, format_bandwidth, parse_bandwidth)


def _seconds(amount: float) -> str | float:
    return _exact(amount, format_seconds, parse_seconds)


def _exact(amount: float, write: Callable[[float], str], read: Callable[[object], float]) -> str | float:
    """An amount as text with its unit, or as a bare number where the text would lose digits."""
    text = write(amount)
    if text[0] == "0" and amount:
        return float(amount)
    return text if read(text) == amount else float(amount)
