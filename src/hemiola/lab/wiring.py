"""Wiring: the interfaces, switches and addresses that a system becomes in the lab."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hemiola.errors import TopologyError
from hemiola.topology.system import Link, Path, System

MAX_HOSTS = 200
MAX_NICS = 16
MAX_SWITCHES = 200
MAX_DELAY_SECONDS = 1.0
NETWORK = "10.77"
"""Addresses are NETWORK.k.h for the k-th interface of host h - 1; every lab has them to itself."""
PREFIX_LENGTH = 24


@dataclass(frozen=True, slots=True)
class Cable:
    """Two ends of a wire, of which the lower belongs to a host or a rack's switch and the upper to the switch above."""

    name: str
    rate_up: float
    """Bytes per second from the lower to the upper end."""
    rate_down: float
    delay_seconds: float
    """One way."""
    switch: str
    """At the upper end."""


@dataclass(frozen=True, slots=True)
class Nic:
    """A network interface of a host."""

    host: int
    interface: str
    address: str
    cable: Cable


@dataclass(frozen=True, slots=True)
class Uplink:
    """The way from a rack's switch to the one above."""

    switch: str
    """At the lower end."""
    cable: Cable


@dataclass(frozen=True, slots=True)
class Wiring:
    """Everything that is to be made."""

    host_names: tuple[str, ...]
    nics: tuple[Nic, ...]
    switches: tuple[str, ...]
    uplinks: tuple[Uplink, ...]

    @property
    def cables(self) -> tuple[Cable, ...]:
        """All wires."""
        return (*(nic.cable for nic in self.nics), *(uplink.cable for uplink in self.uplinks))

    def nics_of(self, host: int) -> tuple[Nic, ...]:
        """The interfaces of a host, in order."""
        return tuple(nic for nic in self.nics if nic.host == host)


def wire(system: System) -> Wiring:
    """The wiring of a system; TopologyError says what the lab cannot build."""
    _check(system)
    depth = system.host_depth
    rails = system.levels[depth - 1].fabric.kind == "rails"
    switches: list[str] = [] if rails else [_switch(())]
    uplinks: list[Uplink] = []
    for level in range(1, depth):
        for path in system.units(level):
            switches.append(_switch(path))
            upper = _switch(path[:-1])
            uplinks.append(Uplink(_switch(path), _cable(_switch(path), system.link_of(path), upper)))
    nics = []
    for number, path in enumerate(system.hosts):
        link = system.link_of(path)
        for k in range(link.num):
            switch = f"rail{k}" if rails else _switch(path[:-1])
            if rails and switch not in switches:
                switches.append(switch)
            cable = _cable(f"h{number}-{k}", link, switch)
            nics.append(Nic(number, f"eth{k}", f"{NETWORK}.{k}.{number + 1}", cable))
    names = tuple(system.host_name(number) for number in range(system.num_hosts))
    return Wiring(names, tuple(nics), tuple(switches), tuple(uplinks))


def _switch(path: Path) -> str:
    return "-".join(("sw", *map(str, path)))


def _cable(name: str, link: Link, switch: str) -> Cable:
    return Cable(name, link.bandwidth_out, link.bandwidth_in, link.latency, switch)


def _check(system: System) -> None:
    """Say in one sentence what the lab cannot build."""
    depth = system.host_depth
    problem = None
    if depth == 0:
        problem = "it is one host, and the lab is made of several: name the level of its hosts host"
    elif not 2 <= system.num_hosts <= MAX_HOSTS:
        problem = f"it has {system.num_hosts} hosts, and the lab takes 2 to {MAX_HOSTS}"
    for level in system.levels[:depth]:
        if problem is not None:
            break
        if level.fabric.kind == "mesh" or level.link is None:
            problem = f"its {level.name}s are joined by a mesh, and the lab builds switches and rails"
        elif not math.isinf(level.fabric.bandwidth):
            problem = f"the switch of its {level.name}s has a bandwidth of its own, and the lab's switches have none"
        elif level.fabric.kind == "rails" and depth > 1:
            problem = "it has rails inside of racks, and the lab builds rails between hosts only"
        elif level is not system.levels[depth - 1] and level.link.num > 1:
            problem = (
                f"its {level.name}s have several uplinks, and the lab gives them one; multiply its bandwidth"
            )
        elif level.link.num > 1 and level.fabric.kind == "switch":
            problem = f"its {level.name}s have several links into one switch, and the lab builds rails: fabric: rails"
    links = (
        [system.link_of(path) for level in range(1, depth + 1) for path in system.units(level)]
        if problem is None
        else []
    )
    if any(link.num > MAX_NICS for link in links):
        problem = f"a host has at most {MAX_NICS} network interfaces in the lab"
    elif any(link.latency > MAX_DELAY_SECONDS for link in links):
        problem = f"a link delays by at most {MAX_DELAY_SECONDS:g} s in the lab"
    elif sum(1 for level in range(1, depth) for _ in system.units(level)) > MAX_SWITCHES:
        problem = f"it has more than {MAX_SWITCHES} switches"
    elif (
        len({link.num for path in system.hosts for link in [system.link_of(path)]} if problem is None else ())
        > 1
    ):
        problem = "its hosts have different numbers of network interfaces"
    if problem is not None:
        raise TopologyError(f"the lab cannot build {system.name}: {problem}")
