"""Hypothesis strategies for systems."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from hemiola.topology.meshes import full_pairs, ring_pairs
from hemiola.topology.system import Compute, Edge, Fabric, Level, Link, Path, ProtocolCosts, System

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).filter(
    lambda text: text.isprintable() and text == text.strip() != ""
)
bandwidths = st.one_of(
    st.sampled_from([25e6, 2e9, 25e9, 8.59e9, 2.7e11]),
    st.floats(1e-3, 1e18, allow_nan=False, allow_infinity=False),
)
limits = st.one_of(st.just(math.inf), bandwidths)
latencies = st.one_of(st.just(0.0), st.sampled_from([1e-6, 5e-6, 1e-3]), st.floats(0.0, 1e3))


@st.composite
def links(draw: st.DrawFn, num_devices: int) -> Link:
    """Some links of a unit with so many devices."""
    out = draw(bandwidths)
    num = draw(st.integers(1, 4))
    numbers = st.lists(st.integers(0, num - 1), min_size=num_devices, max_size=num_devices)
    return Link(
        out, draw(st.one_of(st.just(out), bandwidths)), draw(latencies), num,
        tuple(draw(st.one_of(st.just([]), numbers))),
    )  # fmt: skip


@st.composite
def meshes(draw: st.DrawFn, count: int) -> Fabric:
    """A mesh of some edges."""
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda p: p[0] != p[1])
    edges = draw(
        st.lists(
            st.builds(lambda p, b, s: Edge(p[0], p[1], b, s), pairs, bandwidths, latencies),
            min_size=1,
            max_size=5,
        )
    )
    if draw(st.booleans()):
        pairs_of_form = draw(st.sampled_from([ring_pairs, full_pairs]))(count)
        bandwidth, latency = draw(bandwidths), draw(latencies)
        edges = [Edge(first, second, bandwidth, latency) for first, second in pairs_of_form]
    return Fabric("mesh", draw(limits), draw(st.booleans()), draw(st.booleans()), tuple(edges))


@st.composite
def levels(draw: st.DrawFn, name: str, count: int, num_devices: int) -> Level:
    """A level whose units hold so many devices."""
    if count > 1 and draw(st.integers(0, 3)) == 0:
        return Level(name, count, None, draw(meshes(count)))
    kind = draw(st.sampled_from(["switch", "rails"]))
    fabric = Fabric(kind, draw(limits), draw(st.booleans()), draw(st.booleans()))  # type: ignore[arg-type]
    return Level(name, count, draw(links(num_devices)), fabric)


@st.composite
def systems(draw: st.DrawFn) -> System:
    """A machine of up to three levels, often uneven."""
    names = st.lists(texts, min_size=1, max_size=3, unique=True).filter(
        lambda n: not {"link", "missing"} & set(n)
    )
    level_names = draw(names)
    counts = [draw(st.integers(1, 4)) for _ in level_names]
    inside = [math.prod(counts[depth:]) for depth in range(1, len(counts) + 1)]
    made = tuple(draw(levels(*one)) for one in zip(level_names, counts, inside, strict=True))
    paths: list[Path] = draw(
        st.lists(
            st.integers(1, len(counts)).flatmap(
                lambda depth: st.tuples(*(st.integers(0, count - 1) for count in counts[:depth]))
            ),
            max_size=3,
        )
    )
    exceptions = {
        path: draw(links(inside[len(path) - 1])) for path in paths if made[len(path) - 1].link is not None
    }
    missing = (
        frozenset(path for path in draw(st.sets(st.sampled_from(paths))) if any(path))
        if paths
        else frozenset()
    )
    bare = System("bare", made, missing=missing)
    return System(
        name=draw(texts),
        levels=made,
        about=draw(st.one_of(st.just(""), texts)),
        exceptions=exceptions,
        missing=missing,
        compute=draw(computes),
        protocols=draw(st.dictionaries(texts, protocols, max_size=3)),
        host_names=tuple(
            draw(st.one_of(st.just([]), st.lists(texts, min_size=bare.num_hosts, max_size=bare.num_hosts)))
        ),
    )


computes = st.builds(Compute, limits, limits, limits, limits) | st.builds(
    Compute, core_bandwidth=limits, host_core_bandwidth=limits
)
protocols = st.builds(ProtocolCosts, st.floats(1e-3, 1.0), latencies, limits, latencies)
