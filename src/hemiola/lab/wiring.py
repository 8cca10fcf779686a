"""Wiring: the interfaces, switches and addresses that a system becomes in the lab."""

from __future__ import annotations

from dataclasses import dataclass

from hemiola.lab.limits import check_buildable
from hemiola.topology.system import Link, Path, System

NETWORK = "10.77"
"""The k-th interface of host h - 1 has the address NETWORK.k.h; labs are isolated, so all of them use the same addresses."""
PREFIX_LENGTH = 24


@dataclass(frozen=True, slots=True)
class Cable:
    """A cable; its lower end is at a host or at the switch of a rack, its upper end at the switch above."""

    name: str
    rate_up: float
    """Bytes per second from the lower to the upper end."""
    rate_down: float
    delay_seconds: float
    """Seconds from one end to the other."""
    switch: str
    """The switch at the upper end."""


@dataclass(frozen=True, slots=True)
class LabNic:
    """A network interface of a host."""

    host: int
    interface: str
    address: str
    cable: Cable


@dataclass(frozen=True, slots=True)
class Uplink:
    """The cable from the switch of a rack to the switch above."""

    switch: str
    """The switch at the lower end."""
    cable: Cable


@dataclass(frozen=True, slots=True)
class Wiring:
    """All hosts, interfaces, switches and cables of a lab."""

    host_names: tuple[str, ...]
    nics: tuple[LabNic, ...]
    switches: tuple[str, ...]
    uplinks: tuple[Uplink, ...]

    @property
    def cables(self) -> tuple[Cable, ...]:
        """All cables: those of interfaces, then those of racks."""
        return (*(nic.cable for nic in self.nics), *(uplink.cable for uplink in self.uplinks))

    def nics_of(self, host: int) -> tuple[LabNic, ...]:
        """The interfaces of a host, in order."""
        return tuple(nic for nic in self.nics if nic.host == host)


def wire(system: System) -> Wiring:
    """The wiring of a system; TopologyError says what the lab cannot build."""
    check_buildable(system)
    depth = system.host_depth
    rails = system.levels[depth - 1].fabric.kind == "rails"
    racks = [path for level in range(1, depth) for path in system.units(level)]
    # Switches are named by their number and not by their path: Linux allows 15 characters for the name of a device.
    name_of: dict[Path, str] = {(): "sw", **{path: f"sw{number}" for number, path in enumerate(racks, 1)}}
    switches = [] if rails else list(name_of.values())
    uplinks = [
        Uplink(name_of[path], _cable(name_of[path], system.link_of(path), name_of[path[:-1]]))
        for path in racks
    ]
    nics = []
    for number, path in enumerate(system.hosts):
        link = system.link_of(path)
        for k in range(link.num):
            switch = f"rail{k}" if rails else name_of[path[:-1]]
            if rails and switch not in switches:
                switches.append(switch)
            cable = _cable(f"h{number}-{k}", link, switch)
            nics.append(LabNic(number, f"eth{k}", f"{NETWORK}.{k}.{number + 1}", cable))
    names = tuple(system.host_name(number) for number in range(system.num_hosts))
    return Wiring(names, tuple(nics), tuple(switches), tuple(uplinks))


def _cable(name: str, link: Link, switch: str) -> Cable:
    return Cable(name, link.bandwidth_out, link.bandwidth_in, link.latency, switch)
