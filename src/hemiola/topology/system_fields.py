"""A system as JSON; what has no limit is null."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from hemiola.topology.system import Level, Link, System


def system_fields(system: System) -> dict[str, Any]:
    """All that a system says, in bytes per second and seconds."""
    return {
        "name": system.name,
        "about": system.about,
        "num_ranks": system.num_ranks,
        "num_hosts": system.num_hosts,
        "levels": [_level_fields(level) for level in system.levels],
        "exceptions": [
            {"unit": list(path), "link": _link_fields(link)}
            for path, link in sorted(system.exceptions.items())
        ],
        "missing": sorted(map(list, system.missing)),
        "compute": _finite(asdict(system.compute)),
        "protocols": {name: _finite(asdict(protocol)) for name, protocol in system.protocols.items()},
        "host_names": list(system.host_names),
        "runtime": system.runtime,
    }


def _level_fields(level: Level) -> dict[str, Any]:
    fabric = level.fabric
    return {
        "name": level.name,
        "count": level.count,
        "link": None if level.link is None else _link_fields(level.link),
        "fabric": {**_finite(asdict(fabric)), "edges": [asdict(edge) for edge in fabric.edges]},
    }


def _link_fields(link: Link) -> dict[str, Any]:
    return {**asdict(link), "behind": list(link.behind)}


def _finite(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: None if value == math.inf else value for key, value in fields.items()}
