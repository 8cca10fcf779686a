"""Plans and systems for the tests of the simulator: few ranks, every kind of fabric, and what they share."""

from __future__ import annotations

import math
from functools import lru_cache

from hypothesis import strategies as st

from hemiola.algorithms.library import build
from hemiola.compiler.compile import compile_program
from hemiola.ir.plan import Plan
from hemiola.topology.system import Compute, Edge, Fabric, Level, Link, Path, ProtocolCosts, System

UNLIMITED = Compute()

SMALL = (
    ("allreduce_ring", "ranks=4"),
    ("allreduce_ring", "ranks=4 instances=2 in_place=true"),
    ("allreduce_allpairs", "ranks=4"),
    ("allreduce_hierarchical", "ranks=4 levels=2,2 in_place=true"),
    ("allreduce_hierarchical", "ranks=8 levels=4,2"),
    ("allreduce_double_binary_tree", "ranks=4 chunks=2"),
    ("allreduce_halving_doubling", "ranks=4"),
    ("allgather_ring", "ranks=4"),
    ("alltoall_allpairs", "ranks=4"),
    ("alltoall_two_step", "ranks=4 levels=2,2"),
    ("broadcast_chain", "ranks=4 chunks=3"),
    ("alltonext_direct", "ranks=4"),
    ("reducescatter_recursive_halving", "ranks=4"),
)


@lru_cache(maxsize=64)
def library_plan(name: str, arguments: str) -> Plan:
    """A compiled algorithm, its arguments as words."""
    given = dict(word.split("=") for word in arguments.split())
    return compile_program(build(name, given)).plan


def small_plans() -> st.SearchStrategy[Plan]:
    """Plans of the library on four or eight ranks."""
    return st.sampled_from(SMALL).map(lambda row: library_plan(*row))


def hosts(
    num_hosts: int,
    num_local: int,
    *,
    nic: float = 1e9,
    device: float = 8e9,
    nics: int = 1,
    latency: float = 0.0,
    compute: Compute = UNLIMITED,
    protocol: ProtocolCosts | None = None,
) -> System:
    """Equal hosts of equal devices behind switches."""
    return System(
        name=f"{num_hosts}x{num_local}",
        levels=(
            Level("host", num_hosts, Link(nic, nic, latency, nics)),
            Level("device", num_local, Link(device, device, latency)),
        ),
        compute=compute,
        protocols={} if protocol is None else {"Simple": protocol},
    )


def bandwidths() -> st.SearchStrategy[float]:
    """Few different ones, so that equal and proportional ones meet."""
    return st.sampled_from([1e6, 2e6, 3e6, 5e6, 64e6])


def latencies() -> st.SearchStrategy[float]:
    """Seconds, often none."""
    return st.sampled_from([0.0, 0.0, 0.001, 0.0625])


def links() -> st.SearchStrategy[Link]:
    """Of a unit."""
    return st.builds(Link, bandwidths(), bandwidths(), latencies(), st.integers(1, 3))


def computes() -> st.SearchStrategy[Compute]:
    """Limits of devices and hosts, often none."""
    limit = st.sampled_from([math.inf, math.inf, 1e6, 4e6])
    apart = st.builds(Compute, limit, limit, limit, limit)
    return apart | st.builds(Compute, core_bandwidth=limit, host_core_bandwidth=limit)


def protocols() -> st.SearchStrategy[ProtocolCosts]:
    """What messages cost."""
    return st.builds(
        ProtocolCosts,
        st.sampled_from([1.0, 0.5]),
        st.sampled_from([0.0, 0.0, 0.01]),
        st.sampled_from([math.inf, math.inf, 2e6]),
        st.sampled_from([0.0, 0.0, 0.02]),
    )


@st.composite
def systems(draw: st.DrawFn, *, uneven: bool = True, plain: bool = False) -> System:
    """Eight devices or a few more in one to three levels; ``plain``: no compute limits and no cost of messages."""
    shape = draw(st.sampled_from([(8,), (2, 4), (4, 2), (2, 2, 2), (3, 3)]))
    levels = []
    for depth, count in enumerate(shape, 1):
        kind = draw(st.sampled_from(["switch", "switch", "rails", "mesh"]))
        if kind == "mesh" and depth == len(shape):
            edges = [
                Edge(unit, (unit + 1) % count, draw(bandwidths()), draw(latencies())) for unit in range(count)
            ]
            if count == 2:
                edges = edges[:1]
            levels.append(Level(f"level{depth}", count, None, Fabric("mesh", edges=tuple(edges))))
            continue
        limit = draw(st.sampled_from([math.inf, math.inf, 4e6]))
        fabric = Fabric("rails" if kind == "rails" else "switch", limit)
        levels.append(Level(f"level{depth}", count, draw(links()), fabric))
    exceptions: dict[Path, Link] = {}
    if uneven and levels[0].link is not None and draw(st.booleans()):
        exceptions[(draw(st.integers(0, shape[0] - 1)),)] = draw(links())
    return System(
        "drawn",
        tuple(levels),
        exceptions=exceptions,
        compute=Compute() if plain else draw(computes()),
        protocols={} if plain else {"Simple": draw(protocols())},
    )
