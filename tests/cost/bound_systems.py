"""Small systems, uniform and uneven, for tests of bounds."""

from __future__ import annotations

from dataclasses import asdict, replace

from hypothesis import strategies as st

from hemiola.collectives import (
    AllGather,
    AllReduce,
    AllToAll,
    AllToNext,
    Broadcast,
    Collective,
    Gather,
    Reduce,
    ReduceScatter,
    Scatter,
    SendRecv,
)
from hemiola.topology.system import Compute, Edge, Fabric, Level, Link, System

GB = 1e9


def one_switch(
    num: int, bandwidth: float, latency: float = 0.0, *, reduces: bool = False, multicasts: bool = False
) -> System:
    """Devices on one switch."""
    return System(
        "switch",
        (
            Level(
                "device",
                num,
                Link(bandwidth, bandwidth, latency),
                Fabric(reduces=reduces, multicasts=multicasts),
            ),
        ),
    )


def two_levels(hosts: int, devices: int, nic: float, inside: float, *, num: int = 1) -> System:
    """Hosts with some NICs, and devices in them."""
    return System(
        "two",
        (Level("host", hosts, Link(nic, nic, num=num)), Level("device", devices, Link(inside, inside))),
    )


def ring_mesh(num: int, bandwidth: float, latency: float = 0.0) -> System:
    """Devices in a ring of direct links."""
    edges = tuple(Edge(unit, (unit + 1) % num, bandwidth, latency) for unit in range(num))
    return System("ring", (Level("device", num, None, Fabric("mesh", edges=edges)),))


def scaled(system: System, factor: float) -> System:
    """All bandwidths times, all latencies divided by a factor."""

    def link(one: Link | None) -> Link | None:
        return None if one is None else replace(one.scaled(factor), latency=one.latency / factor)

    def fabric(one: Fabric) -> Fabric:
        edges = tuple(
            replace(edge, bandwidth=edge.bandwidth * factor, latency=edge.latency / factor)
            for edge in one.edges
        )
        return replace(one, bandwidth=one.bandwidth * factor, edges=edges)

    compute = system.compute
    return replace(
        system,
        levels=tuple(replace(one, link=link(one.link), fabric=fabric(one.fabric)) for one in system.levels),
        exceptions={
            path: found for path, one in system.exceptions.items() if (found := link(one)) is not None
        },
        compute=Compute(
            **{name: rate * factor for name, rate in asdict(compute).items() if name.endswith("bandwidth")},
            host_cores=compute.host_cores,
        ),
    )


def collectives_of(n: int) -> list[Collective]:
    """One of each kind."""
    return [
        AllReduce(n, n),
        AllGather(n),
        ReduceScatter(n),
        AllToAll(n),
        AllToNext(n),
        Broadcast(n, root=n - 1),
        Reduce(n, root=n // 2),
        Gather(n, root=n - 1),
        Scatter(n),
        SendRecv(n, source=0, destination=n - 1),
    ]


bandwidths = st.integers(1, 40).map(lambda number: number * 1e8)
latencies = st.sampled_from([0.0, 1e-6, 5e-6])
links = st.builds(Link, bandwidths, bandwidths, latencies, st.integers(1, 3))


@st.composite
def meshes(draw: st.DrawFn, count: int) -> Fabric:
    """A ring with some chords."""
    pairs = {(unit, unit + 1) for unit in range(count - 1)}
    pairs |= draw(st.sets(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=3))
    pairs = {(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]}
    return Fabric(
        "mesh", edges=tuple(Edge(*pair, draw(bandwidths), draw(latencies)) for pair in sorted(pairs))
    )


@st.composite
def systems(draw: st.DrawFn, *, uneven: bool = True) -> System:
    """Up to three levels of up to four units; some units with other links, or missing."""
    levels = []
    for name in ("rack", "host", "device")[-draw(st.integers(1, 3)) :]:
        count = draw(st.integers(1, 4))
        kind = draw(st.sampled_from(["switch", "switch", "rails", "mesh"])) if count > 1 else "switch"
        if kind == "mesh":
            levels.append(Level(name, count, None, draw(meshes(count))))
        else:
            shared = draw(st.sampled_from([float("inf"), float("inf"), 2e9]))
            levels.append(
                Level(name, count, draw(links), Fabric("rails" if kind == "rails" else "switch", shared))
            )
    compute = draw(
        st.sampled_from(
            [
                Compute(),
                Compute(add_bandwidth=1e9),
                Compute(host_add_bandwidth=5e8),
                Compute(core_bandwidth=1e9),
                Compute(host_core_bandwidth=5e8),
            ]
        )
    )
    system = System("drawn", tuple(levels), compute=compute)
    if not uneven:
        return system
    paths = [path for depth in range(1, len(levels) + 1) for path in system.units(depth)]
    plain = [path for path in paths if levels[len(path) - 1].link is not None]
    odd = draw(st.sets(st.sampled_from(plain), max_size=2)) if plain else set()
    exceptions = {path: draw(links) for path in sorted(odd)}
    missing = draw(st.sets(st.sampled_from(plain), max_size=1)) if plain else set()
    full = replace(system, exceptions=exceptions)
    left = [path for path in full.devices if not any(path[: len(gone)] == gone for gone in missing)]
    return replace(full, missing=frozenset(missing)) if left else full
