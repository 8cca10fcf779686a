"""regular_part: an uneven system as if its units were alike, where as many are there in every unit."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hemiola.topology.system import System


def regular_part(system: System) -> System | None:
    """The system without what is missing and without exceptions, its devices numbered as before; None where that leaves no levels."""
    counts, around = [], 1
    for depth in range(1, len(system.levels) + 1):
        inside = Counter(path[:-1] for path in system.units(depth))
        if len(inside) != around or len(set(inside.values())) != 1:
            return None
        counts.append(next(iter(inside.values())))
        around *= counts[-1]
    if counts != [level.count for level in system.levels] and not _can_shrink(system):
        return None
    levels = tuple(replace(level, count=count) for level, count in zip(system.levels, counts, strict=True))
    return replace(system, levels=levels, exceptions={}, missing=frozenset(), host_names=())


def _can_shrink(system: System) -> bool:
    """Meshes and links that say who is behind them are made for all units."""
    return not any(
        level.fabric.kind == "mesh" or (level.link is not None and level.link.behind)
        for level in system.levels
    )
