"""CollectiveRequest: a collective that runs in several groups of a system's devices at once; what a price is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hemiola.collectives import Collective, CollectiveKind
from hemiola.errors import CollectiveError
from hemiola.topology.system import System

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CollectiveRequest:
    """A collective, the groups in which it runs at the same time, and the system that they share."""

    kind: CollectiveKind
    system: System
    groups: tuple[tuple[int, ...], ...]
    """Devices of the system; rank r of a group runs on its r-th. Every group has as many, and no device is in two."""
    root: int = 0
    """The rank of every group that alone gives or takes; the source of a sendrecv."""
    peer: int = 0
    """The destination of a sendrecv."""

    def __post_init__(self) -> None:
        sizes, devices = (
            {len(group) for group in self.groups},
            [one for group in self.groups for one in group],
        )
        if len(sizes) != 1 or 0 in sizes or len(set(devices)) != len(devices):
            raise CollectiveError(
                f"a {self.kind} runs in groups of equally many devices, none in two of them; found groups of {sorted(sizes)} with"
                f" {len(devices)} devices, {len(set(devices))} of them different"
            )
        if not 0 <= min(devices) <= max(devices) < self.system.num_ranks:
            raise CollectiveError(
                f"system {self.system.name!r} has devices 0 to {self.system.num_ranks - 1}, but a group of the {self.kind} has"
                f" device {max(devices) if max(devices) >= self.system.num_ranks else min(devices)}"
            )

    @staticmethod
    def of_system(kind: CollectiveKind, system: System, *, root: int = 0, peer: int = 0) -> CollectiveRequest:
        """One group of all devices."""
        return CollectiveRequest(kind, system, (tuple(range(system.num_ranks)),), root, peer)

    @staticmethod
    def of_groups(
        kind: CollectiveKind, system: System, groups: Sequence[Sequence[int]] | Numbers
    ) -> CollectiveRequest:
        """The groups of a placement, members in the order of devices, but for an alltonext, whose order has a meaning."""
        rows = np.asarray(groups, np.int64)
        ordered = rows if kind is CollectiveKind.ALLTONEXT else np.sort(rows, axis=1)
        return CollectiveRequest(kind, system, tuple(map(tuple, ordered.tolist())))

    @property
    def num_ranks(self) -> int:
        """Of a group."""
        return len(self.groups[0])

    @cached_property
    def table(self) -> Numbers:
        """The groups as rows."""
        return np.array(self.groups, np.int64)

    @property
    def in_place(self) -> bool:
        """The form that is priced: the one in which training calls it."""
        return self.kind.facts.can_be_in_place and self.kind.facts.called_in_place

    @cached_property
    def collective(self) -> Collective:
        """In that form, a chunk a share."""
        return Collective(self.kind, self.num_ranks, 1, self.in_place, root=self.root, peer=self.peer)

    @cached_property
    def hosts(self) -> tuple[int, ...]:
        """The host of every rank of the first group."""
        return tuple(self.system.host_of_rank[device] for device in self.groups[0])

    @cached_property
    def host_patterns(self) -> tuple[tuple[int, ...], ...]:
        """The ways in which groups lie on hosts, each once: hosts are numbered in the order of their ranks."""
        return tuple(dict.fromkeys(map(self._host_pattern, self.groups)))

    @cached_property
    def pattern_of_group(self) -> tuple[int, ...]:
        """Which of these ways each group has."""
        return tuple(self.host_patterns.index(self._host_pattern(group)) for group in self.groups)

    def _host_pattern(self, group: Sequence[int]) -> tuple[int, ...]:
        numbers: dict[int, int] = {}
        hosts = (self.system.host_of_rank[device] for device in group)
        return tuple(numbers.setdefault(host, len(numbers)) for host in hosts)
