"""A system in YAML, as docs/systems.md describes it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import yaml

from hemiola.errors import TopologyError
from hemiola.topology.parse.fields import Fields, shown
from hemiola.topology.system import Compute, Edge, Fabric, Level, Link, Path, Protocol, System
from hemiola.units import parse_bandwidth, parse_seconds

MAX_LEVELS = 16
MAX_DEVICES = 1 << 20
MAX_CHARACTERS = 1 << 24
LEVEL_EXAMPLE = "{name: host, count: 2, link: {bandwidth: 25GB/s, latency: 5us}}"
LINK_EXAMPLE = "{bandwidth: 25GB/s, latency: 5us, num: 8}"
EXCEPTION_EXAMPLE = "{host: 3, link: {bandwidth: 10GB/s}} or {host: 2, missing: true}"


def read_system(text: str, name: str = "system") -> System:
    """The system that a YAML text describes; TopologyError says which key is wrong and what it takes."""
    if len(text) > MAX_CHARACTERS:
        raise TopologyError(f"{name}: a description of a system has at most {MAX_CHARACTERS} characters")
    try:
        document = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise TopologyError(f"{name}: this is not YAML: {' '.join(str(error).split())[:200]}") from None
    top = Fields.of(name, document, f"levels: [{LEVEL_EXAMPLE}]")
    top = Fields("", top.values).only(
        "name", "about", "levels", "exceptions", "compute", "protocols", "host_names"
    )
    try:
        return _system(top, name)
    except TopologyError as error:
        raise TopologyError(f"{name}: {error}") from None


class _Loader(yaml.SafeLoader):
    """Without aliases, which can make a small text huge; a key that is given twice is a mistake."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not taken")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twice = next((key for key in keys if keys.count(key) > 1), None) if len(keys) < 1000 else None
        if twice is not None:
            raise yaml.YAMLError(f"the key {twice[:40]!r} is given twice, line {node.start_mark.line + 1}")
        return super().construct_mapping(node, deep)


def _system(top: Fields, name: str) -> System:
    levels = tuple(_level(*item) for item in top.items("levels", f"[{LEVEL_EXAMPLE}]"))
    if not 1 <= len(levels) <= MAX_LEVELS:
        raise TopologyError(
            f"levels: expected 1 to {MAX_LEVELS} levels such as {LEVEL_EXAMPLE}, found {len(levels)}"
        )
    if math.prod(level.count for level in levels) > MAX_DEVICES:
        raise TopologyError(f"levels: the counts multiply to more than {MAX_DEVICES} devices")
    exceptions: dict[Path, Link] = {}
    missing: set[Path] = set()
    for where, item in top.items("exceptions", f"[{EXCEPTION_EXAMPLE}]"):
        _read_exception(Fields.of(where, item, EXCEPTION_EXAMPLE), levels, exceptions, missing)
    host_names = tuple(
        Fields(where, {"name": item}).text("name", "gpu-001")
        for where, item in top.items("host_names", "[a, b]")
    )
    return System(
        name=top.text("name", "my-cluster", name),
        levels=levels,
        about=top.text("about", "two hosts of four", " ").strip(),
        exceptions=exceptions,
        missing=frozenset(missing),
        compute=_compute(top.part("compute", "{add_bandwidth: 200GB/s}")),
        protocols=_protocols(top.part("protocols", "{Simple: {efficiency: 0.9}}")),
        host_names=host_names,
    )


def _level(where: str, item: object) -> Level:
    fields = Fields.of(where, item, LEVEL_EXAMPLE).only("name", "count", "link", "fabric")
    name, count = fields.text("name", "host"), fields.whole("count", 1, MAX_DEVICES)
    fabric = _fabric(fields, count)
    if fabric.kind == "mesh" and "link" in fields.values:
        raise TopologyError(f"{where}: units of a mesh have edges and no link; give one of the two")
    link = None if fabric.kind == "mesh" else _link(fields.part("link", LINK_EXAMPLE), None)
    return Level(name, count, link, fabric)


def _link(fields: Fields, usual: Link | None) -> Link:
    """A link; what is not said is as usual."""
    fields.only("bandwidth", "bandwidth_out", "bandwidth_in", "latency", "num")
    both: float | None = None
    if (
        (usual is None
        and not {"bandwidth_out", "bandwidth_in"} <= set(fields.values))
        or "bandwidth" in fields.values
    ):
        both = fields.read("bandwidth", parse_bandwidth)
    return Link(
        fields.read("bandwidth_out", parse_bandwidth, both or (usual.bandwidth_out if usual else None)),
        fields.read("bandwidth_in", parse_bandwidth, both or (usual.bandwidth_in if usual else None)),
        fields.read("latency", parse_seconds, usual.latency if usual else 0.0),
        fields.whole("num", 1, 1024, usual.num if usual else 1),
    )


def _fabric(level: Fields, count: int) -> Fabric:
    value = level.values.get("fabric")
    example = "rails, or {kind: switch, reduces: true}"
    fields = Fields.of(
        level.place("fabric"), {"kind": value} if isinstance(value, str) else value or {}, example
    )
    fields.only("kind", "bandwidth", "reduces", "multicasts", "edges")
    kind = fields.text("kind", "switch", "switch")
    if kind not in ("switch", "rails", "mesh"):
        raise TopologyError(f"{fields.place('kind')}: expected switch, rails or mesh, found {shown(kind)}")
    edges = tuple(
        _edge(where, item, count)
        for where, item in fields.items("edges", "[{between: [0, 1], bandwidth: 25GB/s}]")
    )
    if (kind == "mesh") != bool(edges):
        raise TopologyError(f"{fields.place('edges')}: a mesh has edges, and nothing else has")
    return Fabric(
        kind,  # type: ignore[arg-type]
        fields.read("bandwidth", parse_bandwidth, math.inf),
        fields.flag("reduces"),
        fields.flag("multicasts"),
        edges,
    )


def _edge(where: str, item: object, count: int) -> Edge:
    fields = Fields.of(where, item, "{between: [0, 1], bandwidth: 25GB/s}").only(
        "between", "bandwidth", "latency"
    )
    ends = [value for _, value in fields.items("between", "[0, 1]")]
    if len(ends) != 2 or not all(type(end) is int and 0 <= end < count for end in ends) or ends[0] == ends[1]:
        raise TopologyError(
            f"{fields.place('between')}: expected two different units from 0 to {count - 1}, such as [0, 1]"
        )
    first, second = (int(str(end)) for end in ends)
    return Edge(
        first, second, fields.read("bandwidth", parse_bandwidth), fields.read("latency", parse_seconds, 0.0)
    )


def _read_exception(
    fields: Fields, levels: tuple[Level, ...], exceptions: dict[Path, Link], missing: set[Path]
) -> None:
    names = [level.name for level in levels]
    fields.only(*names, "link", "missing")
    depth = max((number for number, name in enumerate(names, 1) if name in fields.values), default=0)
    if depth == 0:
        raise TopologyError(f"{fields.where}: say which unit, as in {EXCEPTION_EXAMPLE}")
    path = tuple(fields.whole(level.name, 0, level.count - 1) for level in levels[:depth])
    if fields.flag("missing"):
        missing.add(path)
    elif (usual := levels[depth - 1].link) is not None and "link" in fields.values:
        exceptions[path] = _link(fields.part("link", LINK_EXAMPLE), usual)
    else:
        raise TopologyError(f"{fields.where}: say what is different, as in {EXCEPTION_EXAMPLE}")


def _compute(fields: Fields) -> Compute:
    names = ("add_bandwidth", "copy_bandwidth", "host_add_bandwidth", "host_copy_bandwidth")
    fields.only(*names)
    return Compute(*(fields.read(name, parse_bandwidth, math.inf) for name in names))


def _protocols(fields: Fields) -> Mapping[str, Protocol]:
    example = "{efficiency: 0.9, step_seconds: 2us, threadblock_bandwidth: 20GB/s}"
    return {name: _protocol(fields.part(name, example)) for name in fields.values}


def _protocol(fields: Fields) -> Protocol:
    fields.only("efficiency", "step_seconds", "threadblock_bandwidth")
    efficiency = fields.values.get("efficiency", 1.0)
    if isinstance(efficiency, bool) or not isinstance(efficiency, int | float) or not 0 < efficiency <= 1:
        raise TopologyError(
            f"{fields.place('efficiency')}: expected a part from 0 to 1 such as 0.9, found {shown(efficiency)}"
        )
    return Protocol(
        float(efficiency),
        fields.read("step_seconds", parse_seconds, 0.0),
        fields.read("threadblock_bandwidth", parse_bandwidth, math.inf),
    )
