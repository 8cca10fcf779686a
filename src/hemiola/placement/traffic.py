"""Traffic: what the devices of a job say to each other in one step, as a list of requests."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from hemiola.collectives import CollectiveKind
from hemiola.errors import PlacementError, TopologyError, UnitError
from hemiola.placement.axes import Axes, find_axis
from hemiola.topology.parse.fields import Fields, shown
from hemiola.topology.parse.text_file import read_text_file
from hemiola.units import parse_bytes, parse_seconds

COLLECTIVES = (
    CollectiveKind.ALLREDUCE,
    CollectiveKind.ALLGATHER,
    CollectiveKind.REDUCESCATTER,
    CollectiveKind.ALLTOALL,
    CollectiveKind.BROADCAST,
    CollectiveKind.ALLTONEXT,
)
"""What a request may be; alltonext is point to point along the axis, as in a pipeline."""

EXAMPLE = "[{collective: allreduce, over: data, bytes: 1GiB}]"
MOST_REQUESTS = 1000
MOST_TIMES = 1e9
MAX_CHARACTERS = 1 << 20


@dataclass(frozen=True, slots=True)
class TrafficRequest:
    """A collective over some axes, some times in a step."""

    collective: CollectiveKind
    over: tuple[str, ...]
    """Axes; the groups of all coordinates on the others run at the same time."""
    num_bytes: int
    """Of the collective (`collectives.kinds`): a member's input, and of an allgather its output."""
    per_step: float = 1.0
    overlaps: str = ""
    """The computation behind which it may hide, a key of ``Traffic.computation``; empty: nothing."""
    name: str = ""

    def axis_numbers(self, axes: Axes) -> list[int]:
        """The axes that it is over, by number."""
        return [find_axis(axes, name, "traffic") for name in self.over]


@dataclass(frozen=True, slots=True)
class Traffic:
    """All requests of a step, and the computation that may hide them."""

    requests: tuple[TrafficRequest, ...]
    computation: Mapping[str, float] = field(default_factory=dict)
    """Seconds in a step, by name."""
    about: str = ""
    """Where it comes from, for people."""

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "about": self.about,
            "computation": dict(self.computation),
            "requests": [
                {
                    "name": request.name,
                    "collective": request.collective,
                    "over": list(request.over),
                    "bytes": request.num_bytes,
                    "per_step": request.per_step,
                    "overlaps": request.overlaps,
                }
                for request in self.requests
            ],
        }

    def check(self, axes: Axes) -> Traffic:
        """Refuse requests over axes that are not there and computation that is not named."""
        for request in self.requests:
            for name in request.over:
                find_axis(axes, name, f"traffic: {request.name}")
            if request.overlaps and request.overlaps not in self.computation:
                known = ", ".join(self.computation) or "none is given"
                raise PlacementError(
                    f"traffic: {request.name} overlaps with {request.overlaps!r}, but of the computation is known: {known};"
                    f" say how long it takes, as in computation: {{{request.overlaps}: 20ms}}"
                )
        return self


def plain_traffic(axes: Axes, num_bytes: int) -> Traffic:
    """An all-reduce over each axis of more than one device: what is assumed where nothing is said."""
    requests = tuple(
        TrafficRequest(CollectiveKind.ALLREDUCE, (axis.name,), num_bytes, name=f"allreduce over {axis.name}")
        for axis in axes
        if axis.size > 1
    )
    return Traffic(requests, about="an all-reduce over each axis")


def load_document(text: str) -> object:
    """YAML from a file, or given inline where there is a bracket, a brace or a colon with a space in it."""
    inline = any(mark in text for mark in "[{\n") or ": " in text
    content = text if inline else read_text_file(text, MAX_CHARACTERS)
    try:
        return yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise PlacementError(f"traffic: this is not YAML; expected a list such as {EXAMPLE}") from None


def read_requests(items: object, computation: object) -> Traffic:
    """A plain list of requests, and the seconds of the computation they overlap with."""
    if not isinstance(items, list) or not 1 <= len(items) <= MOST_REQUESTS:
        raise PlacementError(f"traffic: expected a list of requests such as {EXAMPLE}, found {shown(items)}")
    try:
        fields = Fields.of("computation", {} if computation is None else computation, "{backward: 20ms}")
        seconds = {str(name): fields.read(name, parse_seconds, "20ms") for name in fields.values}
        requests = tuple(_read_request(f"traffic[{number}]", item) for number, item in enumerate(items))
    except TopologyError as error:
        raise PlacementError(str(error)) from None
    return Traffic(requests, seconds, "a list of requests")


def _read_request(where: str, item: object) -> TrafficRequest:
    fields = Fields.of(where, item, EXAMPLE[1:-1])
    fields.only("collective", "over", "bytes", "per_step", "overlaps", "name")
    collective = re.sub("[-_]", "", fields.text("collective", "allreduce")).lower()
    if collective not in COLLECTIVES:
        raise PlacementError(
            f"{where}.collective: expected one of {', '.join(COLLECTIVES)}, found {shown(collective)}"
        )
    over = fields.read("over", _names, "data")
    num_bytes = fields.read("bytes", parse_bytes, "1GiB")
    return TrafficRequest(
        CollectiveKind(collective),
        over,
        num_bytes,
        fields.read("per_step", _times, "2", 1.0),
        fields.text("overlaps", "backward", "-").removeprefix("-"),
        fields.text("name", "gradients", f"{collective} over {', '.join(over)}"),
    )


def _names(value: object) -> tuple[str, ...]:
    names: Iterable[Any] = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    found = tuple(name for name in names if isinstance(name, str))
    if not found or len(set(found)) != len(list(names)):
        raise UnitError(f"expected an axis or a list of different axes, such as data, found {shown(value)}")
    return found


def _times(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UnitError(f"expected how often in a step, such as 2, found {shown(value)}")
    if not 0 < value <= MOST_TIMES:
        raise UnitError(f"expected a number above 0 and up to {MOST_TIMES:.0e}, found {shown(value)}")
    return float(value)
