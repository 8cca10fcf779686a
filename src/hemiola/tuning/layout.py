"""Layout: how the ranks lie on the hosts, as far as the choice of an algorithm depends on it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby


@dataclass(frozen=True, slots=True)
class Layout:
    """How the ranks lie on the hosts."""

    num_ranks: int
    num_hosts: int
    obstacle: str | None
    """Why the ranks have no two levels, hosts and ranks of a host; None where they have."""

    @property
    def levels(self) -> tuple[int, int]:
        """Hosts, and ranks of each; only where there is no obstacle."""
        assert self.obstacle is None
        return self.num_hosts, self.num_ranks // self.num_hosts


@lru_cache(maxsize=256)
def layout_of(hosts: tuple[int, ...]) -> Layout:
    """The layout of ranks of which each lies on ``hosts[rank]``; numbers only say which are the same host."""
    return Layout(len(hosts), len(set(hosts)), _obstacle(hosts))


def _obstacle(hosts: tuple[int, ...]) -> str | None:
    sizes = sorted(set(Counter(hosts).values()))
    if sizes == [len(hosts)]:
        return "all ranks are on one host"
    blocks = [host for host, _ in groupby(hosts)]
    if len(blocks) > len(set(blocks)):
        host, _ = Counter(blocks).most_common(1)[0]
        first = hosts.index(host)
        stray = next(rank for rank in range(first, len(hosts)) if hosts[rank] != host)
        return (
            f"rank {stray} of another host stands between ranks of host {host}; number the ranks host by host"
        )
    if len(sizes) > 1:
        return f"hosts have from {sizes[0]} to {sizes[-1]} ranks, and as many on each are needed"
    return "every host has only one rank" if sizes == [1] else None
