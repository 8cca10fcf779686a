"""System: a machine as levels of units, the links that connect them, and how fast its devices add and copy bytes.

A system is a tree. The units of a level lie inside a unit of the level outside it, where their links connect them to a
*fabric*: a switch, several switches (rails), or a mesh of direct links. The innermost units are the devices; rank ``r``
runs on the ``r``-th device that is present.

A unit is named by its path: one number for each level from the outermost to its own, so ``(1, 0)`` is host 0 of
rack 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Literal

from hemiola.errors import TopologyError

Path = tuple[int, ...]
"""A unit: its number at every level from the outermost to its own."""

RUNTIMES = ("hemiola", "nccl", "rccl", "msccl")
"""Those whose way of moving a plan is modelled (simulator/runtimes)."""

HOST_NAMES = ("host", "node", "server", "machine")
"""The names of a level whose units are hosts. Without such a level, the units around the devices are the hosts."""


@dataclass(frozen=True, slots=True)
class Link:
    """The connection of a unit to the fabric around it: ``num`` equal links, each full duplex."""

    bandwidth_out: float
    """Bytes per second of each link, from the unit."""
    bandwidth_in: float
    """Bytes per second of each link, to the unit."""
    latency: float = 0.0
    """Seconds from one end to the other."""
    num: int = 1
    behind: tuple[int, ...] = ()
    """For every device of the unit, including missing ones, the number of the link that its traffic uses. Where this is
    empty, a device uses the link with the number, modulo ``num``, of the inner unit in which it lies."""

    def scaled(self, factor: float) -> Link:
        """The same links with their bandwidths multiplied by a factor."""
        return replace(
            self, bandwidth_out=self.bandwidth_out * factor, bandwidth_in=self.bandwidth_in * factor
        )


@dataclass(frozen=True, slots=True)
class Edge:
    """A direct link between two units of a mesh, in both directions."""

    first: int
    second: int
    bandwidth: float
    """Bytes per second in each direction."""
    latency: float = 0.0


@dataclass(frozen=True, slots=True)
class Fabric:
    """What connects the units of a level inside one unit of the level outside."""

    kind: Literal["switch", "rails", "mesh"] = "switch"
    """One switch for all links; rails, which are a switch for the k-th links of all units, for every k; or direct links."""
    bandwidth: float = math.inf
    """Bytes per second of all transfers through the fabric together, where that is less than its links can carry."""
    reduces: bool = False
    """Whether the switch can reduce what passes through it."""
    multicasts: bool = False
    """Whether the switch can send one message to many units."""
    edges: tuple[Edge, ...] = ()
    """The direct links of a mesh; empty for other kinds."""


@dataclass(frozen=True, slots=True)
class Level:
    """All units of one kind."""

    name: str
    count: int
    """How many units lie in one unit of the level outside."""
    link: Link | None
    """The links of every unit; None in a mesh."""
    fabric: Fabric = Fabric()


@dataclass(frozen=True, slots=True)
class Compute:
    """How fast devices add and copy, in bytes of result per second."""

    add_bandwidth: float = math.inf
    """The rate at which one device adds."""
    copy_bandwidth: float = math.inf
    host_add_bandwidth: float = math.inf
    """The rate at which all devices of a host together add, where they share cores or memory."""
    host_copy_bandwidth: float = math.inf
    core_bandwidth: float = math.inf
    """The rate of a device whose core adds and copies one after the other; it replaces the rates above."""
    host_core_bandwidth: float = math.inf
    """Of all cores of a host together."""
    host_cores: int | None = None
    """Cores of a host that its ranks share; None where every rank has one."""
    threadblocks: int | None = None
    """Threadblocks that run on a device at once: its multiprocessors; None without a limit."""

    def __post_init__(self) -> None:
        *others, core, host_core = (bandwidth for bandwidth, _ in self.limits())
        if min(core, host_core) < math.inf and min(others) < math.inf:
            raise TopologyError(
                "compute: core_bandwidth is for cores that add and copy in turn, add_bandwidth and copy_bandwidth for"
                " devices that do both at once; leave one of them out"
            )

    def limits(self) -> tuple[tuple[float, bool], ...]:
        """Every rate and whether all devices of a host share it: adding, copying and cores, of each first the device's rate."""
        return (
            (self.add_bandwidth, False),
            (self.host_add_bandwidth, True),
            (self.copy_bandwidth, False),
            (self.host_copy_bandwidth, True),
            (self.core_bandwidth, False),
            (self.host_core_bandwidth, True),
        )


@dataclass(frozen=True, slots=True)
class ProtocolCosts:
    """What a protocol of a runtime costs on this machine."""

    efficiency: float = 1.0
    """The fraction of a link's bandwidth that is left for data."""
    step_seconds: float = 0.0
    """The time that every message costs its sender in addition to its bytes; the threadblock is busy meanwhile."""
    threadblock_bandwidth: float = math.inf
    """Bytes per second that one threadblock can move."""
    latency: float = 0.0
    """The time that every message takes in addition to the latencies of its links; the next message may follow meanwhile."""
    launch_seconds: float = 0.0
    """The time from a call until its first step: the launch of a kernel."""
    act_seconds: float = 0.0
    """The time that an interpreter of plans takes for every step, whatever the step does."""
    send_bandwidth: float = math.inf
    """Bytes per second that one threadblock can store into the memory of a device of its host."""
    receive_bandwidth: float = math.inf
    """Bytes per second that one threadblock can take out of a connection, where that is less than ``threadblock_bandwidth``."""
    nic_seconds: float = 0.0
    """The time of a NIC that every message between hosts takes in addition to its bytes: posting, proxy, completion."""

    @property
    def message_seconds(self) -> float:
        """The time of a message without bytes over no links, which is the least that any message takes."""
        return self.step_seconds + self.latency


@dataclass(frozen=True)
class System:
    """A machine."""

    name: str
    levels: tuple[Level, ...]
    """The levels, the outermost first."""
    about: str = ""
    exceptions: Mapping[Path, Link] = field(default_factory=dict)
    """The links of units that differ from those of their level."""
    missing: frozenset[Path] = frozenset()
    """The units that are absent, with everything inside them."""
    compute: Compute = Compute()
    protocols: Mapping[str, ProtocolCosts] = field(default_factory=dict)
    """The costs of protocols by name; the first one is the default."""
    host_names: tuple[str, ...] = ()
    """The names of the hosts in their order; empty where hosts have none."""
    runtime: str = "hemiola"
    """The runtime that carries out plans on this machine, and whose costs ``protocols`` has: hemiola, nccl, rccl or msccl."""

    def __post_init__(self) -> None:
        if not self.levels:
            raise TopologyError(
                f"system {self.name!r} has no levels; a machine of two devices has one, of count 2"
            )
        names = [level.name for level in self.levels]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise TopologyError(
                f"system {self.name!r} has two levels called {twice!r}; every level has its own name"
            )
        if self.runtime not in RUNTIMES:
            raise TopologyError(
                f"system {self.name!r} has the runtime {self.runtime!r}; expected one of {', '.join(RUNTIMES)}"
            )
        for level in self.levels:
            self._check_level(level)
        for path in (*self.exceptions, *self.missing):
            self._check_path(path)
        for depth, level in enumerate(self.levels, 1):
            self._check_link(depth, level.link)
        for path, link in self.exceptions.items():
            if self.levels[len(path) - 1].link is None:
                raise TopologyError(
                    f"{self.describe(path)} of system {self.name!r} is joined by a mesh and cannot have a link of its own"
                )
            self._check_link(len(path), link)
        # This finds one device and does not count all of them, so that making a large system is cheap.
        if next(self.units(len(self.levels)), None) is None:
            raise TopologyError(f"system {self.name!r} has no devices: all of its units are missing")
        if self.host_names and len(self.host_names) != self.num_hosts:
            raise TopologyError(
                f"system {self.name!r} has {self.num_hosts} hosts, but {len(self.host_names)} host names"
            )

    def _check_level(self, level: Level) -> None:
        if level.count < 1:
            raise TopologyError(
                f"level {level.name!r} of system {self.name!r} has count {level.count}; expected 1 or more"
            )
        for edge in level.fabric.edges:
            ends = {edge.first, edge.second}
            if (
                len(ends) < 2
                or not 0 <= min(ends) <= max(ends) < level.count
                or not edge.bandwidth > 0
                or not edge.latency >= 0
            ):
                raise TopologyError(
                    f"level {level.name!r} of system {self.name!r} has {edge}; expected two different ends from 0 to"
                    f" {level.count - 1}, a bandwidth above 0 and a latency of 0 or more"
                )

    def _check_path(self, path: Path) -> None:
        if not 1 <= len(path) <= len(self.levels):
            raise TopologyError(f"unit {path} of system {self.name!r} does not say its number at each level")
        for number, level in zip(path, self.levels, strict=False):
            if not 0 <= number < level.count:
                raise TopologyError(
                    f"there is no {level.name} {number} in system {self.name!r}: they are numbered 0 to {level.count - 1}"
                )

    def _check_link(self, depth: int, link: Link | None) -> None:
        if link is None:
            return
        if not (link.bandwidth_out > 0 < link.bandwidth_in and link.latency >= 0 and link.num >= 1):
            raise TopologyError(
                f"a {self.levels[depth - 1].name} of system {self.name!r} has {link}; expected bandwidths above 0, a latency"
                " of 0 or more and num of 1 or more"
            )
        if not link.behind:
            return
        level, num_devices = self.levels[depth - 1], math.prod(one.count for one in self.levels[depth:])
        if len(link.behind) != num_devices or not all(0 <= number < link.num for number in link.behind):
            raise TopologyError(
                f"the links of a {level.name} of system {self.name!r} say behind which of them its devices are: expected"
                f" {num_devices} numbers from 0 to {link.num - 1}, found {list(link.behind[:8])}"
            )

    @cached_property
    def devices(self) -> tuple[Path, ...]:
        """The path of every rank's device."""
        return tuple(self.units(len(self.levels)))

    @property
    def num_ranks(self) -> int:
        """The number of devices that are present."""
        return len(self.devices)

    @property
    def is_uniform(self) -> bool:
        """Whether all units of every level are equal and none is missing."""
        return not self.exceptions and not self.missing

    def units(self, depth: int) -> Iterator[Path]:
        """The units at a depth that are present, in order; depth 1 is the outermost level."""
        counts = [range(level.count) for level in self.levels[:depth]]
        if not self.missing:
            yield from product(*counts)
            return
        for path in product(*counts):
            if not any(path[:end] in self.missing for end in range(1, depth + 1)):
                yield path

    def link_of(self, path: Path) -> Link:
        """The links of a unit: those of its level, unless the unit is an exception."""
        link = self.exceptions.get(path) or self.levels[len(path) - 1].link
        if link is None:
            raise TopologyError(
                f"{self.describe(path)} of system {self.name!r} is joined by a mesh and has no link"
            )
        return link

    def link_number(self, unit: Path, device: Path) -> int:
        """Which of a unit's links the traffic of a device inside it uses."""
        link, inside = self.link_of(unit), device[len(unit) :]
        if not inside:
            return 0
        if not link.behind:
            return inside[0] % link.num
        number = 0
        for digit, level in zip(inside, self.levels[len(unit) :], strict=True):
            number = number * level.count + digit
        return link.behind[number]

    @cached_property
    def host_depth(self) -> int:
        """The depth of the level of hosts; 0 where the whole system is one host."""
        named = [depth for depth, level in enumerate(self.levels, 1) if level.name in HOST_NAMES]
        return named[0] if named else 0 if len(self.levels) == 1 else len(self.levels) - 1

    @cached_property
    def hosts(self) -> tuple[Path, ...]:
        """The hosts that are present, in order."""
        return tuple(self.units(self.host_depth))

    @property
    def num_hosts(self) -> int:
        """The number of hosts that are present."""
        return len(self.hosts)

    @cached_property
    def host_of_rank(self) -> tuple[int, ...]:
        """The number of the host of every rank."""
        numbers = {path: number for number, path in enumerate(self.hosts)}
        return tuple(numbers[device[: self.host_depth]] for device in self.devices)

    def host_name(self, number: int) -> str:
        """The name of a host, which is made from its number where none is given."""
        return self.host_names[number] if self.host_names else f"host{number}"

    def describe(self, path: Path) -> str:
        """The name of a unit for messages: ``host 0 of rack 1``."""
        return " of ".join(
            f"{level.name} {number}" for level, number in reversed(list(zip(self.levels, path, strict=False)))
        )
