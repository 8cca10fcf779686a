"""The native plan file, ``.plan``: a short header and then every column of every table, little endian.

``docs/plan_format.md`` describes the bytes. A file may come from a stranger: nothing in it is executed,
every length is compared with the file's size before memory is taken, and the tables pass ``check_form``
before anybody sees them. The same plan always gives the same bytes.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from hemiola.collectives import KINDS, Collective, CollectiveKind, CustomMeaning
from hemiola.errors import CollectiveError, FormatError, PlanError
from hemiola.ir.form import check_form, check_plausible_size
from hemiola.ir.formats.files import read_regular_file, write_atomically
from hemiola.ir.plan import DEPENDENCY, RANK, STEP, THREADBLOCK, Plan, Protocol, Rows, is_plain_text
from hemiola.units import LARGEST

MAGIC = b"\x89HML\r\n\x1a\n"
"""Not text, and broken by any transfer that changes line ends."""
VERSION = 1
OLDEST_VERSION = 1

_PREFIX = struct.Struct("<8sIIII")
"""Magic, version, length of the header, checksum of everything from the version on but itself, and 0."""
_CHECKSUM_AT = 16
_HEADER_AT = _PREFIX.size
_ALIGNMENT = 8
MAX_HEADER_BYTES = 1 << 16
_MAX_ROWS = 1 << 32

SIZES = np.dtype([("input_chunks", "<u4"), ("output_chunks", "<u4")])
PROMISE = np.dtype([("rank", "<u4"), ("index", "<u4"), ("first_origin", "<u4")])
ORIGIN = np.dtype([("rank", "<u4"), ("index", "<u4")])
LINE = np.dtype([("length", "<u4")])
TEXT = np.dtype([("byte", "u1")])

TABLES: Mapping[str, np.dtype[np.void]] = {
    "ranks": RANK,
    "threadblocks": THREADBLOCK,
    "steps": STEP,
    "dependencies": DEPENDENCY,
    "lines": LINE,
    "line_text": TEXT,
    "custom_sizes": SIZES,
    "custom_promises": PROMISE,
    "custom_origins": ORIGIN,
}
"""Every table of a file, in the order of the file; its columns follow each other in the order of the row."""

Tables = dict[str, Rows]


def to_bytes(plan: Plan) -> bytes:
    """The plan as a native file; raises PlanError for a plan that could not be read back."""
    check_form(plan)
    tables = _tables_of(plan)
    header = _pad(json.dumps(_header_of(plan, tables), sort_keys=True, separators=(",", ":")).encode())
    if len(header) > MAX_HEADER_BYTES:
        raise PlanError(f"the plan's name has {len(plan.name)} characters, too many for a file; shorten it")
    columns = b"".join(_columns(rows) for rows in tables.values())
    checked = struct.pack("<II", VERSION, len(header))
    checksum = zlib.crc32(columns, zlib.crc32(header, zlib.crc32(checked)))
    return _PREFIX.pack(MAGIC, VERSION, len(header), checksum, 0) + header + columns


def write_native(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write the plan as a native file; a reader sees the old file or the whole new one, never a part."""
    write_atomically(path, to_bytes(plan))


def read_native(path: str | os.PathLike[str]) -> Plan:
    """The plan in a native file; raises FormatError with one sentence for anything else."""
    return from_bytes(read_regular_file(path), str(path))


def from_bytes(data: bytes, name: str = "plan") -> Plan:
    """The plan in the bytes of a native file that is called ``name`` in errors."""
    try:
        return _parse(memoryview(data))
    except (FormatError, PlanError, CollectiveError) as error:
        raise FormatError(f"{name}: {error}") from None


def _parse(data: memoryview) -> Plan:
    header_length, checksum = _read_prefix(data)
    columns_at = _HEADER_AT + header_length
    found = zlib.crc32(data[_HEADER_AT:], zlib.crc32(data[8:_CHECKSUM_AT]))
    if found != checksum:
        raise FormatError(
            f"the file is damaged: its checksum is {checksum:08x}, but its bytes give {found:08x}; "
            "fetch or compile it again"
        )
    header = _Header(_parse_json(bytes(data[_HEADER_AT:columns_at])))
    lengths = _table_lengths(header, len(data) - columns_at)
    tables = _read_tables(data[columns_at:], lengths)
    plan = Plan(
        name=_plain(header.text("name")),
        collective=_collective_from(header, tables),
        protocol=_protocol_from(header),
        ranks=tables["ranks"],
        threadblocks=tables["threadblocks"],
        steps=tables["steps"],
        dependencies=tables["dependencies"],
        lines=_lines_from(tables),
        min_bytes=header.integer("min_bytes", LARGEST),
        max_bytes=header.integer("max_bytes", LARGEST),
        message_bytes=header.integer("message_bytes", LARGEST, default=0),
        both_places=header.flag("both_places"),
    )
    check_form(plan)
    check_plausible_size(plan)
    return plan


def _plain(name: str) -> str:
    if not is_plain_text(name):
        raise FormatError("the plan's name has characters that cannot be printed")
    return name


def _read_prefix(data: memoryview) -> tuple[int, int]:
    """Length of the header and the checksum, after everything that can be judged without the header."""
    if len(data) < len(MAGIC) or data[: len(MAGIC)] != MAGIC:
        raise FormatError("this is no native plan file: it does not begin with its eight magic bytes")
    if len(data) < _HEADER_AT:
        raise FormatError(f"the file ends after {len(data)} bytes, inside its first {_HEADER_AT}")
    _, version, header_length, checksum, reserved = _PREFIX.unpack_from(data)
    if version > VERSION:
        raise FormatError(
            f"the file has format version {version}, but this Hemiola reads versions {OLDEST_VERSION} to "
            f"{VERSION}; update Hemiola, or compile the plan again"
        )
    if version < OLDEST_VERSION or reserved != 0:
        raise FormatError(f"the file is damaged: it has version {version} and {reserved} where 0 must be")
    if header_length > MAX_HEADER_BYTES or _HEADER_AT + header_length > len(data):
        raise FormatError(
            f"the header is said to have {header_length} bytes, but the file has {len(data)} and a header "
            f"at most {MAX_HEADER_BYTES}"
        )
    return header_length, checksum


def _parse_json(text: bytes) -> Mapping[str, Any]:
    try:
        header = json.loads(text.decode())
    except (ValueError, RecursionError):
        raise FormatError("the header is not the JSON that it should be") from None
    if not isinstance(header, dict):
        raise FormatError("the header is not a JSON object")
    return header


class _Header:
    """The header's entries, each with the type that it must have."""

    def __init__(self, entries: Mapping[str, Any]) -> None:
        self._entries = entries

    def integer(self, key: str, largest: int, default: int | None = None) -> int:
        """A whole number from 0 to ``largest``; ``default`` where the header may leave it out."""
        value = self._entries.get(key, default)
        if type(value) is not int or not 0 <= value <= largest:
            raise FormatError(f"the header's {key} is {_shown(value)}, but must be from 0 to {largest}")
        return value

    def flag(self, key: str) -> bool:
        """True or false."""
        value = self._entries.get(key)
        if type(value) is not bool:
            raise FormatError(f"the header's {key} is {_shown(value)}, but must be true or false")
        return value

    def text(self, key: str) -> str:
        """A text."""
        value = self._entries.get(key)
        if not isinstance(value, str):
            raise FormatError(f"the header's {key} is {_shown(value)}, but must be a text")
        return value

    def part(self, key: str) -> _Header:
        """An object inside the header."""
        value = self._entries.get(key)
        if not isinstance(value, dict):
            raise FormatError(f"the header's {key} is {_shown(value)}, but must be an object")
        return _Header(value)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "..."


def _header_of(plan: Plan, tables: Tables) -> dict[str, Any]:
    c = plan.collective
    return {
        "name": plan.name,
        "protocol": plan.protocol.value,
        "min_bytes": plan.min_bytes,
        "max_bytes": plan.max_bytes,
        **({"message_bytes": plan.message_bytes} if plan.message_bytes else {}),
        "both_places": plan.both_places,
        "collective": {
            "kind": c.kind,
            "num_ranks": c.num_ranks,
            "chunks": c.chunks,
            "in_place": c.in_place,
            "root": c.root,
            "peer": c.peer,
        },
        "rows": {name: len(rows) for name, rows in tables.items()},
    }


def _pad(header: bytes) -> bytes:
    return header + b" " * (-(_HEADER_AT + len(header)) % _ALIGNMENT)


def _columns(rows: Rows) -> bytes:
    assert rows.dtype.names is not None
    return b"".join(np.ascontiguousarray(rows[field]).tobytes() for field in rows.dtype.names)


def _table_lengths(header: _Header, available: int) -> dict[str, int]:
    """Rows per table, when all columns together fill exactly the bytes after the header."""
    rows = header.part("rows")
    lengths = {name: rows.integer(name, _MAX_ROWS) for name in TABLES}
    needed = sum(lengths[name] * row.itemsize for name, row in TABLES.items())
    if needed != available:
        raise FormatError(f"the tables need {needed} bytes after the header, but the file has {available}")
    return lengths


def _read_tables(data: memoryview, lengths: Mapping[str, int]) -> Tables:
    tables: Tables = {}
    position = 0
    for name, row in TABLES.items():
        table = np.empty(lengths[name], row)
        assert row.names is not None
        for field in row.names:
            column = np.frombuffer(data, row[field], lengths[name], position)
            table[field] = column
            position += column.nbytes
        tables[name] = table
    return tables


def _tables_of(plan: Plan) -> Tables:
    text = [line.encode() for line in plan.lines]
    tables = {
        "ranks": plan.ranks,
        "threadblocks": plan.threadblocks,
        "steps": plan.steps,
        "dependencies": plan.dependencies,
        "lines": np.array([(len(line),) for line in text], LINE),
        "line_text": np.frombuffer(b"".join(text), TEXT),
    }
    return {**tables, **_custom_tables(plan.collective.custom)}


def _custom_tables(custom: CustomMeaning | None) -> Tables:
    if custom is None:
        return {
            name: np.empty(0, TABLES[name]) for name in ("custom_sizes", "custom_promises", "custom_origins")
        }
    promises: list[tuple[int, int, int]] = []
    origins: list[tuple[int, int]] = []
    for rank, index, contributions in custom.promises:
        promises.append((rank, index, len(origins)))
        origins.extend(contributions)
    sizes = list(zip(custom.input_chunks, custom.output_chunks, strict=True))
    return {
        "custom_sizes": np.array(sizes, SIZES),
        "custom_promises": np.array(promises, PROMISE),
        "custom_origins": np.array(origins, ORIGIN),
    }


def _protocol_from(header: _Header) -> Protocol:
    value = header.text("protocol")
    try:
        return Protocol(value)
    except ValueError:
        known = ", ".join(protocol.value for protocol in Protocol)
        raise FormatError(f"the header's protocol is {_shown(value)}, but must be one of {known}") from None


def _lines_from(tables: Tables) -> tuple[str, ...]:
    ends = np.cumsum(tables["lines"]["length"], dtype=np.uint64)
    text = tables["line_text"].tobytes()
    if int(ends[-1] if len(ends) else 0) != len(text):
        raise FormatError("the lengths of the lines do not add up to their text")
    try:
        return tuple(text[a:b].decode() for a, b in pairwise([0, *ends.tolist()]))
    except UnicodeDecodeError:
        raise FormatError("a line of the user's program is not UTF-8") from None


def _collective_from(header: _Header, tables: Tables) -> Collective:
    part = header.part("collective")
    kind = part.text("kind")
    if kind not in KINDS:
        raise FormatError(f"there is no collective {_shown(kind)}; known are {', '.join(KINDS)}")
    limit = 1 << 32
    return Collective(
        kind=CollectiveKind(kind),
        num_ranks=part.integer("num_ranks", limit),
        chunks=part.integer("chunks", limit),
        in_place=part.flag("in_place"),
        root=part.integer("root", limit),
        peer=part.integer("peer", limit),
        custom=_custom_from(tables, part.integer("num_ranks", limit)) if kind == "custom" else None,
    )


def _custom_from(tables: Tables, num_ranks: int) -> CustomMeaning:
    sizes, promises, origins = (tables[f"custom_{name}"] for name in ("sizes", "promises", "origins"))
    if len(sizes) != num_ranks:
        raise FormatError(f"the custom collective has sizes of {len(sizes)} ranks, but {num_ranks} ranks")
    ends = np.append(promises["first_origin"].astype(np.int64), len(origins))
    if (len(promises) == 0 and len(origins)) or ends[0] != 0 or (np.diff(ends) < 1).any():
        raise FormatError("the promises of the custom collective do not share out its contributions")
    _check_named("promise", promises, sizes["output_chunks"])
    _check_named("contribution", origins, sizes["input_chunks"])
    _check_sorted(promises, origins, ends)
    contributions = list(zip(origins["rank"].tolist(), origins["index"].tolist(), strict=True))
    rows = zip(promises["rank"].tolist(), promises["index"].tolist(), pairwise(ends.tolist()), strict=True)
    return CustomMeaning(
        tuple(sizes["input_chunks"].tolist()),
        tuple(sizes["output_chunks"].tolist()),
        tuple((rank, index, tuple(contributions[a:b])) for rank, index, (a, b) in rows),
    )


def _check_named(what: str, rows: Rows, sizes: npt.NDArray[np.uint32]) -> None:
    if (rows["rank"] >= len(sizes)).any() or (rows["index"] >= sizes[rows["rank"]]).any():
        raise FormatError(f"a {what} of the custom collective names a chunk that does not exist")


def _check_sorted(promises: Rows, origins: Rows, ends: npt.NDArray[np.int64]) -> None:
    """Promises ascend, and so do the contributions of each, so that none comes twice."""
    rising = _rises(promises)
    inside = _rises(origins)
    inside[ends[1:-1] - 1] = True
    if not (rising.all() and inside.all()):
        raise FormatError("the custom collective's promises are not sorted, or one comes twice")


def _rises(rows: Rows) -> npt.NDArray[np.bool_]:
    key: npt.NDArray[np.uint64] = rows["rank"].astype(np.uint64) << np.uint64(32) | rows["index"]
    return key[1:] > key[:-1]
