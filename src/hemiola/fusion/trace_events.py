"""Events of a trace that torch's profiler wrote: read, checked and sorted by what they are."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hemiola.errors import FusionError

MAX_BYTES = 1 << 31
"""Of a trace when it is unpacked; a step of the largest jobs has a few hundred megabytes."""
ELEMENT_BYTES = {
    "float": 4, "double": 8, "c10::half": 2, "half": 2, "c10::bfloat16": 2, "bfloat16": 2, "float16": 2, "float32": 4,
    "float64": 8, "long int": 8, "int": 4, "long": 8, "unsigned char": 1, "byte": 1, "signed char": 1, "bool": 1,
    "c10::float8_e4m3fn": 1, "c10::float8_e5m2": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
}  # fmt: skip
"""By the names that the profiler and the collectives of PyTorch use, in lower case."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that took a time."""

    name: str
    category: str
    thread: str
    """The thread, or the stream of a device."""
    begin: float
    """In seconds."""
    end: float
    fields: dict[str, Any]

    def inside(self, other: Event) -> bool:
        """Whether it begins while another one is under way."""
        return other.begin <= self.begin < other.end


def read_events(path: Path) -> list[Event]:
    """All events of a trace with a duration, in the order in which they begin; longer ones first where several begin at once."""
    document = _read_document(path)
    rows = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(rows, list):
        raise FusionError(f"{path}: no trace of torch's profiler: it has no list 'traceEvents'")
    found = list(_events(path, rows))
    if not found:
        raise FusionError(f"{path}: the trace has no event with a duration ('ph': 'X')")
    return sorted(found, key=lambda event: (event.begin, -event.end))


def _read_document(path: Path) -> Any:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise FusionError(f"{path}: cannot be read: {error}") from None
    if len(data) > MAX_BYTES:
        raise FusionError(f"{path}: larger than {MAX_BYTES >> 30} GiB; record fewer steps")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FusionError(f"{path}: not JSON: {error}") from None


def _events(path: Path, rows: Sequence[Any]) -> Iterator[Event]:
    for number, row in enumerate(rows):
        if not isinstance(row, dict) or row.get("ph") != "X":
            continue
        try:
            begin, length = float(row["ts"]) * 1e-6, float(row.get("dur", 0.0)) * 1e-6
            fields = row.get("args") or {}
            name, category = str(row["name"]), str(row.get("cat", "")).lower()
            thread = f"{row.get('pid')}/{row.get('tid')}"
        except (KeyError, TypeError, ValueError, OverflowError):
            raise FusionError(f"{path}: event {number} has no name, or no time that is a number") from None
        if not (math.isfinite(begin) and math.isfinite(length) and length >= 0 and isinstance(fields, dict)):
            raise FusionError(f"{path}: event {number} ({name!r}) has a time or fields that are none")
        yield Event(name, category, thread, begin, begin + length, fields)


def outermost(events: Sequence[Event]) -> list[Event]:
    """Events of one thread that no other one of them contains; in order."""
    found: list[Event] = []
    for event in events:
        if not found or event.begin >= found[-1].end:
            found.append(event)
    return found


def tensor_bytes(event: Event) -> int | None:
    """Bytes of the first tensor that an event was given; None where the profiler did not record shapes."""
    shapes, kinds = event.fields.get("Input Dims"), event.fields.get("Input type")
    if not isinstance(shapes, list) or not shapes or not isinstance(kinds, list) or not kinds:
        return None
    shape = shapes[0]
    while isinstance(shape, list) and shape and isinstance(shape[0], list):
        shape = shape[0]  # a list of tensors
    size = ELEMENT_BYTES.get(str(kinds[0]).lower())
    if size is None or not isinstance(shape, list) or not all(isinstance(one, int) for one in shape):
        return None
    return size * math.prod(shape)
