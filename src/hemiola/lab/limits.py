"""Limits: which systems the lab cannot build, each reason as half a sentence for an error message."""

from __future__ import annotations

import math
import re

from hemiola.errors import TopologyError
from hemiola.topology.system import Level, System

MAX_HOSTS = 200
MAX_NICS = 16
MAX_SWITCHES = 200
MAX_DELAY_SECONDS = 1.0
HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,62}")


def check_buildable(system: System) -> None:
    """Raise TopologyError for a system that the lab cannot build."""
    problem = (
        _size_problem(system) or _level_problem(system) or _link_problem(system) or _name_problem(system)
    )
    if problem is not None:
        raise TopologyError(f"the lab cannot build {system.name}: {problem}")


def _size_problem(system: System) -> str | None:
    depth = system.host_depth
    if depth == 0:
        return "it is one host, and the lab is made of several: name the level of its hosts host"
    if not 2 <= system.num_hosts <= MAX_HOSTS:
        return f"it has {system.num_hosts} hosts, and the lab takes 2 to {MAX_HOSTS}"
    if sum(1 for level in range(1, depth) for _ in system.units(level)) > MAX_SWITCHES:
        return f"it has more than {MAX_SWITCHES} switches"
    return None


def _level_problem(system: System) -> str | None:
    depth = system.host_depth
    for number, level in enumerate(system.levels[:depth], 1):
        problem = _fabric_problem(level, is_host=number == depth, inside_racks=depth > 1)
        if problem is not None:
            return problem
    return None


def _fabric_problem(level: Level, *, is_host: bool, inside_racks: bool) -> str | None:
    if level.fabric.kind == "mesh" or level.link is None:
        return f"its {level.name}s are joined by a mesh, and the lab builds switches and rails"
    if not math.isinf(level.fabric.bandwidth):
        return f"the switch of its {level.name}s has a bandwidth of its own, and the lab's switches have none"
    if level.fabric.kind == "rails" and inside_racks:
        return "it has rails inside of racks, and the lab builds rails between hosts only"
    if level.link.num > 1 and not is_host:
        return f"its {level.name}s have several uplinks, and the lab gives them one; multiply its bandwidth"
    if level.link.num > 1 and level.fabric.kind == "switch":
        return (
            f"its {level.name}s have several links into one switch, and the lab builds rails: fabric: rails"
        )
    return None


def _link_problem(system: System) -> str | None:
    links = [
        system.link_of(path) for level in range(1, system.host_depth + 1) for path in system.units(level)
    ]
    if any(link.num > MAX_NICS for link in links):
        return f"a host has at most {MAX_NICS} network interfaces in the lab"
    if any(link.latency > MAX_DELAY_SECONDS for link in links):
        return f"a link delays by at most {MAX_DELAY_SECONDS:g} s in the lab"
    if len({system.link_of(path).num for path in system.hosts}) > 1:
        return "its hosts have different numbers of network interfaces"
    return None


def _name_problem(system: System) -> str | None:
    for number in range(system.num_hosts):
        name = system.host_name(number)
        if not HOST_NAME.fullmatch(name):
            return f"a host is called {name[:80]!r}, and a name is up to 63 letters, digits, dots and dashes"
    return None
