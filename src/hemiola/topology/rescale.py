"""rescale: a system with other latencies or bandwidths."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from hemiola.topology.system import Edge, Link, System

Latency = Callable[[float], float]


def with_latencies(system: System, change: Latency, levels: Collection[int] | None = None) -> System:
    """The same with other latencies, of the levels with these numbers or of all."""

    def link(number: int, one: Link) -> Link:
        return replace(one, latency=change(one.latency)) if levels is None or number in levels else one

    def edge(number: int, one: Edge) -> Edge:
        return replace(one, latency=change(one.latency)) if levels is None or number in levels else one

    return _changed(system, link, edge)


def without_latency(system: System) -> System:
    """The same with all latencies zero."""
    return with_latencies(system, lambda seconds: 0.0)


def with_bandwidths(system: System, factor: float, levels: Collection[int]) -> System:
    """The same with faster or slower links and fabrics of the levels with these numbers."""

    def link(number: int, one: Link) -> Link:
        return one.scaled(factor) if number in levels else one

    def edge(number: int, one: Edge) -> Edge:
        return replace(one, bandwidth=one.bandwidth * factor) if number in levels else one

    changed = list(_changed(system, link, edge).levels)
    for number in levels:
        fabric = changed[number].fabric
        faster = replace(fabric, bandwidth=fabric.bandwidth * factor)
        changed[number] = replace(changed[number], fabric=faster)
    return replace(_changed(system, link, edge), levels=tuple(changed))


def _changed(system: System, link: Callable[[int, Link], Link], edge: Callable[[int, Edge], Edge]) -> System:
    levels = tuple(
        replace(
            level,
            link=None if level.link is None else link(number, level.link),
            fabric=replace(level.fabric, edges=tuple(edge(number, one) for one in level.fabric.edges)),
        )
        for number, level in enumerate(system.levels)
    )
    exceptions = {path: link(len(path) - 1, one) for path, one in system.exceptions.items()}
    return replace(system, levels=levels, exceptions=exceptions)
