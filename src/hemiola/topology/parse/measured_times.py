"""Measured times: from CSV tables, from ``hemiola bench --json``, and from logs of nccl-tests."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

from hemiola.collectives import KINDS
from hemiola.errors import FormatError
from hemiola.topology.parse.nccl_tests import (
    LARGEST,
    MAX_CHARACTERS,
    Measurement,
    kind_in_name,
    read_nccl_tests,
)

SIZE_COLUMNS = ("size_bytes", "bytes", "size")
TIME_COLUMNS = {"seconds": 1.0, "time_us": 1e-6, "time_ms": 1e-3}
RATE_COLUMNS = {"algbw_GBps": 1e9, "algbw": 1e9}
"""The columns of a CSV table, with the unit of their numbers."""


def read_measurements(
    path: Path, *, kind: str | None = None, num_ranks: int | None = None
) -> list[Measurement]:
    """The rows of a file: JSON of ``hemiola bench``, CSV with a size and a time or an algbw, or a log of nccl-tests."""
    try:
        text = path.read_text("utf-8", errors="replace")
    except OSError as error:
        raise FormatError(f"{path}: it cannot be read: {error.strerror}") from None
    if len(text) > MAX_CHARACTERS:
        raise FormatError(f"{path}: measured times have at most {MAX_CHARACTERS} characters")
    if text.lstrip().startswith("{"):
        return read_bench(text, str(path))
    header = [word.strip() for word in text.partition("\n")[0].split(",")]
    if len(header) > 1 and any(column in header for column in SIZE_COLUMNS):
        return read_csv(text, str(path), kind=kind, num_ranks=num_ranks)
    return read_nccl_tests(text, str(path), kind=kind, num_ranks=num_ranks)


def read_csv(
    text: str, name: str, *, kind: str | None = None, num_ranks: int | None = None
) -> list[Measurement]:
    """The rows of a table whose first line names its columns; rows without a time above zero are skipped."""
    kind = kind or kind_in_name(name)
    if kind is None:
        raise FormatError(
            f"{name}: the file does not say which collective it is of; say it with --collective"
        )
    try:
        rows = list(csv.DictReader(io.StringIO(text)))
    except csv.Error as error:
        raise FormatError(f"{name}: this is not CSV: {error}") from None
    columns = [column for column in (rows[0] if rows else {}) if column]
    size = next((column for column in SIZE_COLUMNS if column in columns), None)
    value = next((column for column in (*TIME_COLUMNS, *RATE_COLUMNS) if column in columns), None)
    if size is None or value is None:
        raise FormatError(
            f"{name}: expected a column {' or '.join(SIZE_COLUMNS)} and a column {' or '.join((*TIME_COLUMNS, *RATE_COLUMNS))}, "
            f"found {', '.join(columns)[:80] or 'no rows'}"
        )
    found = []
    for row in rows:
        size_bytes, number = _positive(row[size]), _positive(row[value])
        if size_bytes is None or number is None or size_bytes > LARGEST:
            continue
        seconds = (
            number * TIME_COLUMNS[value]
            if value in TIME_COLUMNS
            else size_bytes / (number * RATE_COLUMNS[value])
        )
        if not 0 < seconds < math.inf:
            continue
        found.append(Measurement(kind, num_ranks, int(size_bytes), seconds))
    return found


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
