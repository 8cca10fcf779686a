"""``read_system``: reads a system from YAML in the format of docs/systems.md."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import yaml

from hemiola.errors import TopologyError
from hemiola.topology.meshes import FORMS, torus_pairs
from hemiola.topology.parse.fields import LONGEST_TEXT, Fields, is_short, shown
from hemiola.topology.system import Compute, Edge, Fabric, Level, Link, Path, ProtocolCosts, System

MAX_LEVELS = 16
MAX_DEVICES = 1 << 20
MAX_LINKS = 1024
"""The most links of one unit."""
MOST_IN_FULL, MOST_IN_RING = 512, 1 << 14
"""The most units of a mesh that is given by its form, so that a short text cannot make very many edges."""
MAX_CHARACTERS = 1 << 20
LONGEST_SCALAR = 1000
"""The most characters of one value, because PyYAML takes quadratic time for some long values."""
LEVEL_EXAMPLE = "{name: host, count: 2, link: {bandwidth: 25GB/s, latency: 5us}}"
EDGE_EXAMPLE = "{between: [0, 1], bandwidth: 25GB/s}"
FORM_EXAMPLE = "{form: ring, bandwidth: 25GB/s}"
LINK_EXAMPLE = "{bandwidth: 25GB/s, latency: 5us, num: 8}"
EXCEPTION_EXAMPLE = "{host: 3, link: {bandwidth: 10GB/s}} or {host: 2, missing: true}"


def read_system(text: str, name: str = "system") -> System:
    """The system that a YAML text describes; TopologyError says which key is wrong and what it takes."""
    if len(text) > MAX_CHARACTERS:
        raise TopologyError(f"{name}: a description of a system has at most {MAX_CHARACTERS} characters")
    try:
        document = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise TopologyError(f"{name}: this is not YAML: {_reason(error)}") from None
    top = Fields.of(name, document, f"levels: [{LEVEL_EXAMPLE}]")
    try:
        return _system(Fields("", top.values), name)
    except TopologyError as error:
        raise TopologyError(f"{name}: {error}") from None


def _reason(error: Exception) -> str:
    """The message of PyYAML on one line, with unprintable characters replaced."""
    reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        reason = f"{error.problem}, line {mark.line + 1}, column {mark.column + 1}"
    words = " ".join(reason.split())[:200]
    return "".join(character if character.isprintable() else "?" for character in words)


class _Loader(yaml.SafeLoader):
    """Refuses aliases, which can make a small text huge, refuses tags, and refuses a key that is given twice."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not taken")
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "tag", None) is not None:
            raise yaml.YAMLError("tags (!name) are not taken")
        if isinstance(event, yaml.ScalarEvent) and len(event.value) > LONGEST_SCALAR:
            raise yaml.YAMLError(f"a value has at most {LONGEST_SCALAR} characters")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key in (key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key in seen:
                raise yaml.YAMLError(f"the key {key[:40]!r} is given twice, line {node.start_mark.line + 1}")
            seen.add(key)
        return super().construct_mapping(node, deep)


def _system(top: Fields, name: str) -> System:
    top.only("name", "about", "levels", "exceptions", "compute", "protocols", "host_names", "runtime")
    levels = tuple(_level(*item) for item in top.items("levels", f"[{LEVEL_EXAMPLE}]"))
    if not 1 <= len(levels) <= MAX_LEVELS:
        raise TopologyError(
            f"levels: expected 1 to {MAX_LEVELS} levels such as {LEVEL_EXAMPLE}, found {len(levels)}"
        )
    if math.prod(level.count for level in levels) > MAX_DEVICES:
        raise TopologyError(
            f"levels: the counts multiply to more than {MAX_DEVICES} devices; make one of them smaller, as in count: 2"
        )
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
        runtime=top.text("runtime", "nccl", "hemiola"),
    )


def _level(where: str, item: object) -> Level:
    fields = Fields.of(where, item, LEVEL_EXAMPLE).only("name", "count", "link", "fabric")
    name, count = fields.text("name", "host"), fields.whole("count", 1, MAX_DEVICES)
    if name in ("link", "missing"):
        raise TopologyError(
            f"{fields.place('name')}: expected a name such as host, found {name}, which is a key of exceptions"
        )
    fabric = _fabric(fields, count)
    if fabric.kind == "mesh" and "link" in fields.values:
        raise TopologyError(
            f"{fields.place('link')}: units of a mesh are joined by edges and have no link; leave it out, or take "
            f"fabric: switch"
        )
    link = None if fabric.kind == "mesh" else _link(fields.part("link", LINK_EXAMPLE), None)
    return Level(name, count, link, fabric)


def _link(fields: Fields, usual: Link | None) -> Link:
    """A link; keys that are not given have the values of ``usual``."""
    fields.only("bandwidth", "bandwidth_out", "bandwidth_in", "latency", "num", "behind")
    both: float | None = None
    each_way = {"bandwidth_out", "bandwidth_in"} <= set(fields.values)
    if "bandwidth" in fields.values or (usual is None and not each_way):
        both = fields.bandwidth("bandwidth")
    num = fields.whole("num", 1, MAX_LINKS, usual.num if usual else 1)
    return Link(
        fields.bandwidth("bandwidth_out", both or (usual.bandwidth_out if usual else None)),
        fields.bandwidth("bandwidth_in", both or (usual.bandwidth_in if usual else None)),
        fields.seconds("latency", usual.latency if usual else 0.0),
        num,
        _behind(fields, num, usual),
    )


def _behind(fields: Fields, num: int, usual: Link | None) -> tuple[int, ...]:
    if "behind" not in fields.values:
        return usual.behind if usual and usual.num == num else ()
    numbers = [number for _, number in fields.items("behind", "[0, 0, 1, 1]")]
    if not all(type(number) is int and 0 <= number < num for number in numbers):
        raise TopologyError(
            f"{fields.place('behind')}: expected the number of a link, from 0 to {num - 1}, for every device inside, "
            f"such as [0, 0, 1, 1] with num: 2"
        )
    return tuple(int(str(number)) for number in numbers)


def _fabric(level: Fields, count: int) -> Fabric:
    value = level.values.get("fabric")
    example = "{kind: switch, reduces: true}"
    fields = Fields.of(
        level.place("fabric"),
        {"kind": value or "switch"} if value is None or isinstance(value, str) else value,
        example,
    )
    fields.only("kind", "bandwidth", "reduces", "multicasts", "edges")
    kind = fields.text("kind", "switch", "switch")
    if kind not in ("switch", "rails", "mesh"):
        raise TopologyError(f"{fields.place('kind')}: expected switch, rails or mesh, found {shown(kind)}")
    edges = _edges(fields, count)
    if (kind == "mesh") != bool(edges):
        raise TopologyError(
            f"{fields.place('edges')}: a mesh has edges such as {EDGE_EXAMPLE}, and nothing else has"
        )
    return Fabric(
        kind,  # type: ignore[arg-type]
        fields.bandwidth("bandwidth", math.inf),
        fields.flag("reduces"),
        fields.flag("multicasts"),
        edges,
    )


def _edges(fabric: Fields, count: int) -> tuple[Edge, ...]:
    """The edges of a mesh, given one by one or by a form."""
    if not isinstance(fabric.values.get("edges"), dict):
        return tuple(_edge(*item, count) for item in fabric.items("edges", f"[{EDGE_EXAMPLE}]"))
    fields = fabric.part("edges", FORM_EXAMPLE).only("form", "sizes", "bandwidth", "latency")
    form = fields.text("form", "ring")
    if form not in (*FORMS, "torus"):
        raise TopologyError(f"{fields.place('form')}: expected ring, full or torus, found {shown(form)}")
    most = MOST_IN_FULL if form == "full" else MOST_IN_RING
    if count > most:
        raise TopologyError(f"{fields.place('form')}: {form} is for up to {most} units, found {count}")
    pairs = torus_pairs(_sizes(fields, count)) if form == "torus" else FORMS[form](count)
    bandwidth, latency = fields.bandwidth("bandwidth"), fields.seconds("latency", 0.0)
    return tuple(Edge(first, second, bandwidth, latency) for first, second in pairs)


def _sizes(fields: Fields, count: int) -> list[int]:
    sizes = [size for _, size in fields.items("sizes", "[4, 4]")]
    whole = [int(str(size)) for size in sizes if type(size) is int and 2 <= size <= count]
    if not sizes or len(whole) < len(sizes) or len(sizes) > MAX_LEVELS or math.prod(whole) != count:
        raise TopologyError(
            f"{fields.place('sizes')}: expected whole numbers from 2 that multiply to the count {count}, as [4, 4] do to 16"
        )
    return whole


def _edge(where: str, item: object, count: int) -> Edge:
    fields = Fields.of(where, item, EDGE_EXAMPLE).only("between", "bandwidth", "latency")
    ends = [value for _, value in fields.items("between", "[0, 1]")]
    if len(ends) != 2 or not all(type(end) is int and 0 <= end < count for end in ends) or ends[0] == ends[1]:
        raise TopologyError(
            f"{fields.place('between')}: expected two different units from 0 to {count - 1}, such as [0, 1]"
        )
    first, second = (int(str(end)) for end in ends)
    return Edge(first, second, fields.bandwidth("bandwidth"), fields.seconds("latency", 0.0))


def _read_exception(
    fields: Fields, levels: tuple[Level, ...], exceptions: dict[Path, Link], missing: set[Path]
) -> None:
    names = [level.name for level in levels]
    fields.only(*names, "link", "missing")
    depth = max((number for number, name in enumerate(names, 1) if name in fields.values), default=0)
    if depth == 0:
        raise TopologyError(f"{fields.where}: say which unit, as in {EXCEPTION_EXAMPLE}")
    path = tuple(fields.whole(level.name, 0, level.count - 1) for level in levels[:depth])
    if fields.flag("missing") and "link" in fields.values:
        raise TopologyError(
            f"{fields.where}: a unit that is missing has no link; say one of the two, as in {EXCEPTION_EXAMPLE}"
        )
    if path in (missing if fields.flag("missing") else exceptions):
        raise TopologyError(
            f"{fields.where}: this unit is named twice; say all of it once, as in {EXCEPTION_EXAMPLE}"
        )
    if fields.flag("missing"):
        missing.add(path)
    elif (usual := levels[depth - 1].link) is not None and "link" in fields.values:
        exceptions[path] = _link(fields.part("link", LINK_EXAMPLE), usual)
    else:
        raise TopologyError(f"{fields.where}: say what is different, as in {EXCEPTION_EXAMPLE}")


def _compute(fields: Fields) -> Compute:
    counts = ("host_cores", "threadblocks")
    names = [field.name for field in dataclasses.fields(Compute) if field.name not in counts]
    fields.only(*names, *counts)
    cores, threadblocks = (fields.whole(name, 0, 1 << 20, 0) or None for name in counts)
    rates = {name: fields.bandwidth(name, math.inf) for name in names}
    return Compute(**rates, host_cores=cores, threadblocks=threadblocks)


def _protocols(fields: Fields) -> Mapping[str, ProtocolCosts]:
    example = "{efficiency: 0.9, latency: 2us, threadblock_bandwidth: 20GB/s}"
    for name in fields.values:
        if not is_short(name):
            raise TopologyError(
                f"{fields.where}: expected names of up to {LONGEST_TEXT} characters such as Simple, found {shown(name)}"
            )
    return {name: _protocol(fields.part(name, example)) for name in fields.values}


def _protocol(fields: Fields) -> ProtocolCosts:
    fields.only(*(field.name for field in dataclasses.fields(ProtocolCosts)))
    efficiency = fields.values.get("efficiency", 1.0)
    if isinstance(efficiency, bool) or not isinstance(efficiency, int | float) or not 0 < efficiency <= 1:
        raise TopologyError(
            f"{fields.place('efficiency')}: expected a part from 0 to 1 such as 0.9, found {shown(efficiency)}"
        )
    return ProtocolCosts(
        float(efficiency),
        fields.seconds("step_seconds", 0.0),
        fields.bandwidth("threadblock_bandwidth", math.inf),
        fields.seconds("latency", 0.0),
        fields.seconds("launch_seconds", 0.0),
        fields.seconds("act_seconds", 0.0),
        fields.bandwidth("send_bandwidth", math.inf),
        fields.bandwidth("receive_bandwidth", math.inf),
        fields.seconds("nic_seconds", 0.0),
    )
