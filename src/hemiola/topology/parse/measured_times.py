"""Measured times: from CSV tables, from JSON, and from logs of nccl-tests and rccl-tests.

A CSV table names its columns in its first line, whatever their case: a size, a time or an algorithm bandwidth, and where they are known the plan,
the collective, the ranks and whether calls were in place. rccl-tests writes such tables, and the same as JSON; its times are
microseconds, and its bandwidths are rounded, so that the time is read where there is one.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hemiola.collectives import KINDS
from hemiola.errors import FormatError
from hemiola.topology.parse.nccl_tests import (
    LARGEST,
    MAX_CHARACTERS,
    Measurement,
    kind_in_name,
    kind_of_test,
    read_nccl_tests,
)

SIZE_COLUMNS = ("size_bytes", "bytes", "size")
TIME_COLUMNS = {"seconds": 1.0, "time_us": 1e-6, "time_ms": 1e-3, "time": 1e-6}
RATE_COLUMNS = {"algbw_gbps": 1e9, "algbw": 1e9}
"""The columns of a table in small letters, with the unit of their numbers; the first that is there is read."""
KIND_COLUMNS = ("collective", "name", "test")
PLACES = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
FORMS = {"out_of_place": False, "in_place": True}
"""The two times of a row of nccl-tests' JSON."""


def read_measurements(
    path: Path, *, kind: str | None = None, num_ranks: int | None = None
) -> list[Measurement]:
    """The rows of a file: JSON, CSV with a size and a time or an algbw, or a log of nccl-tests."""
    try:
        text = path.read_text("utf-8", errors="replace")
    except OSError as error:
        raise FormatError(f"{path}: it cannot be read: {error.strerror}") from None
    if len(text) > MAX_CHARACTERS:
        raise FormatError(f"{path}: measured times have at most {MAX_CHARACTERS} characters")
    if text.lstrip().startswith(("{", "[{")):
        return read_json(text, str(path), kind=kind, num_ranks=num_ranks)
    header = [word.strip().lower() for word in text.partition("\n")[0].split(",")]
    if len(header) > 1 and any(column in header for column in SIZE_COLUMNS):
        return read_csv(text, str(path), kind=kind, num_ranks=num_ranks)
    return read_nccl_tests(text, str(path), kind=kind, num_ranks=num_ranks)


def read_csv(
    text: str, name: str, *, kind: str | None = None, num_ranks: int | None = None
) -> list[Measurement]:
    """The rows of a table whose first line names its columns; rows without a time above zero are skipped."""
    try:
        rows = list(csv.DictReader(io.StringIO(text)))
    except csv.Error as error:
        raise FormatError(f"{name}: this is not CSV: {error}") from None
    return _table(rows, name, kind=kind, num_ranks=num_ranks)


def _table(
    rows: Iterable[Mapping[str | None, Any]], name: str, *, kind: str | None, num_ranks: int | None
) -> list[Measurement]:
    table = [
        {key.strip().lower(): value for key, value in row.items() if isinstance(key, str)} for row in rows
    ]
    columns = list(table[0]) if table else []
    size = next((column for column in SIZE_COLUMNS if column in columns), None)
    value = next((column for column in (*TIME_COLUMNS, *RATE_COLUMNS) if column in columns), None)
    if size is None or value is None:
        raise FormatError(
            f"{name}: expected a column {' or '.join(SIZE_COLUMNS)} and a column {' or '.join((*TIME_COLUMNS, *RATE_COLUMNS))}, "
            f"found {', '.join(columns)[:80] or 'no rows'}"
        )
    found = [_measured(row, size, value, name, kind, num_ranks) for row in table]
    return [one for one in found if one is not None]


def _measured(
    row: Mapping[str, Any], size: str, value: str, name: str, kind: str | None, num_ranks: int | None
) -> Measurement | None:
    size_bytes, number = _positive(row[size]), _positive(row.get(value))
    if size_bytes is None or number is None or size_bytes > LARGEST:
        return None
    if value in TIME_COLUMNS:
        seconds = number * TIME_COLUMNS[value]
    else:
        seconds = size_bytes / (number * RATE_COLUMNS[value])
    if not 0 < seconds < math.inf:
        return None
    ranks = _positive(row.get("ranks"))
    return Measurement(
        _kind(row, name, kind),
        num_ranks if ranks is None else int(ranks),
        int(size_bytes),
        seconds,
        str(row.get("plan") or "").strip(),
        PLACES.get(str(row.get("inplace", row.get("in_place", ""))).strip().lower()),
    )


def _kind(row: Mapping[str, Any], name: str, given: str | None) -> str:
    """What the row says, else what the caller says, else what the name of the file says."""
    said = [str(row[column]) for column in KIND_COLUMNS if row.get(column)]
    for word in said:
        found = word if word in KINDS else kind_of_test(word)
        if found is not None:
            return found
    kind = given or kind_in_name(name)
    if kind is None:
        raise FormatError(
            f"{name}: the file does not say which collective it is of; say it with --collective"
        )
    return kind


def read_json(
    text: str, name: str, *, kind: str | None = None, num_ranks: int | None = None
) -> list[Measurement]:
    """What ``hemiola bench --json``, nccl-tests or rccl-tests wrote."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{name}: this is not JSON: {' '.join(str(error).split())[:120]}") from None
    if isinstance(document, dict) and "rows" in document:
        return read_bench(text, name)
    rows = list(_flat_rows(document))
    if not rows:
        raise FormatError(
            f"{name}: expected what hemiola bench --json, nccl-tests or rccl-tests write: objects with a size and a time"
        )
    return _table(rows, name, kind=kind or _said(document), num_ranks=num_ranks)


def _flat_rows(document: object, depth: int = 0) -> Iterator[dict[str | None, Any]]:
    """Every object with a size and a time, at any depth; one with both forms of a call is two rows."""
    if depth > 8:
        return
    if isinstance(document, list):
        for one in document:
            yield from _flat_rows(one, depth + 1)
    if not isinstance(document, dict):
        return
    if "size" in document and any(form in document for form in FORMS):
        for form, in_place in FORMS.items():
            if isinstance(times := document.get(form), dict):
                plain = {key: value for key, value in document.items() if not isinstance(value, dict)}
                yield {**plain, **times, "inplace": str(int(in_place))}
    elif "size" in document and "time" in document:
        yield dict(document)
    else:
        for value in document.values():
            yield from _flat_rows(value, depth + 1)


def _said(document: object, depth: int = 0) -> str | None:
    """A collective that some text of a document names as a test."""
    if isinstance(document, str):
        return next(
            (kind for word in document.split() if (kind := kind_of_test(word.rpartition("/")[2]))), None
        )
    if depth > 4 or not isinstance(document, dict | list):
        return None
    values = document.values() if isinstance(document, dict) else document[:64]
    return next((kind for one in values if (kind := _said(one, depth + 1))), None)


def read_bench(text: str, name: str) -> list[Measurement]:
    """Hemiola's own times in the output of ``hemiola bench --json``."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{name}: this is not JSON: {' '.join(str(error).split())[:120]}") from None
    kind = document.get("collective") if isinstance(document, dict) else None
    rows = document.get("rows") if isinstance(document, dict) else None
    if not isinstance(kind, str) or kind not in KINDS or not isinstance(rows, list):
        raise FormatError(
            f"{name}: expected what hemiola bench --json prints, with the keys collective and rows"
        )
    return [one for row in rows if (one := _bench_row(kind, row)) is not None]


def _bench_row(kind: str, row: object) -> Measurement | None:
    if not isinstance(row, dict):
        return None
    size, ranks, seconds = (_positive(row.get(key)) for key in ("bytes", "ranks", "hemiola_seconds"))
    if size is None or ranks is None or seconds is None or size > LARGEST or ranks > LARGEST:
        return None
    return Measurement(kind, int(ranks), int(size), seconds)


def _positive(value: object) -> float | None:
    """A number above zero, or None."""
    if isinstance(value, bool) or not isinstance(value, str | int | float) or len(str(value)[:65]) > 64:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if 0 < number < math.inf else None
