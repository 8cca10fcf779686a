"""Reads the rows of sizes and times in logs of nccl-tests and rccl-tests, whatever else the logs contain.

A row is ``size count type [redop] [root] time algbw busbw wrong time algbw busbw wrong``, sizes in bytes, times in
microseconds, first out of place, then in place. Launchers print other text before rows and between them; a line that is
not a row is skipped. The collective is printed by newer versions, or comes from the name of the program in the log, from
the name of the file, or from the caller.

Sizes in such logs are what Hemiola calls the bytes of a collective.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from hemiola.errors import FormatError

MAX_CHARACTERS = 1 << 26
LARGEST = 1 << 62

_TESTS: Mapping[str, str] = {
    "all_reduce": "allreduce",
    "all_gather": "allgather",
    "reduce_scatter": "reducescatter",
    "alltoall": "alltoall",
    "all_to_all": "alltoall",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "sendrecv": "alltonext",
}
"""How nccl-tests call what Hemiola calls; in their sendrecv every rank sends to the next."""

_PREFIX = re.compile(r"^(?:\[[^\]\s]{1,64}\](?:<std(?:out|err)>)?:?\s*|\s*\d{1,6}:\s+)")
_ROW = re.compile(r"\s*(\d{1,19})\s+(\d{1,19})\s+([a-z]\w*)\s+(?:[a-z]\w*\s+)?(.+)", re.ASCII)
_RANK = re.compile(r"#\s+Rank\s+(\d{1,7})\s.*\bdevice\b", re.IGNORECASE)
_PROGRAM = re.compile(r"\b(" + "|".join(sorted(_TESTS, key=len, reverse=True)) + r")_perf\b")
_STARTING = re.compile(r"#\s+Collective test starting:\s+(\w+)")


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measured time of one collective."""

    kind: str
    """A key of ``collectives.KINDS``."""
    num_ranks: int | None
    """None where the source does not give it."""
    num_bytes: int
    """Of the collective."""
    seconds: float
    plan: str = ""
    """The name of the plan that ran; empty: what the library chose."""
    in_place: bool | None = None
    """None where the source does not say it."""


def read_nccl_tests(
    text: str, name: str, *, kind: str | None = None, num_ranks: int | None = None
) -> list[Measurement]:
    """The rows of a log, out of place and in place. ``kind`` and ``num_ranks`` are used where the log lacks them."""
    if len(text) > MAX_CHARACTERS:
        raise FormatError(f"{name}: a log has at most {MAX_CHARACTERS} characters")
    lines = [_PREFIX.sub("", line) for line in text.splitlines()]
    rows = [row for line in lines for row in _rows(line)]
    if not rows:
        raise FormatError(
            f"{name}: no rows of nccl-tests were found, such as '1048576 262144 float sum -1 45.9 22.8 39.9 0 45.7 22.9 40.1 0'"
        )
    ranks = [int(found[1]) for line in lines if (found := _RANK.match(line))]
    # The highest rank tells how many there are, also where launchers lost or repeated lines of the header.
    count = max(ranks) + 1 if ranks else num_ranks
    kind = _said_kind(lines) or kind or kind_in_name(name)
    if kind is None:
        raise FormatError(f"{name}: the log does not say which collective it is of; say it with --collective")
    return [Measurement(kind, count, size, seconds, in_place=place) for size, seconds, place in rows]


def kind_of_test(word: str) -> str | None:
    """The collective that a test is of: ``all_reduce_perf``, ``AllReduce`` or ``allreduce``."""
    plain = re.sub(r"[-_\s]", "", word.lower()).removesuffix("perf")
    return next((kind for name, kind in _TESTS.items() if name.replace("_", "") == plain), None)


def kind_in_name(name: str) -> str | None:
    """The collective that is part of a file's name; longer names of collectives are tried first."""
    plain = re.sub(r"[-_\s]", "", name.rpartition("/")[2].lower())
    words = sorted(
        ((word.replace("_", ""), kind) for word, kind in _TESTS.items()), key=lambda one: -len(one[0])
    )
    return next((kind for word, kind in words if word in plain), None)


def _said_kind(lines: list[str]) -> str | None:
    for line in lines:
        found = _STARTING.search(line) or _PROGRAM.search(line)
        if found and (kind := _TESTS.get(found[1].removesuffix("_perf"))):
            return kind
    return None


def _rows(line: str) -> list[tuple[int, float, bool]]:
    """The size, the seconds and the place of a row's times above zero; none for a line that is no row."""
    match = _ROW.fullmatch(line)
    if match is None or not 0 < int(match[1]) <= LARGEST:
        return []
    words = match[4].split()
    if words and re.fullmatch(r"-?\d{1,7}", words[0], re.ASCII) and len(words) in (5, 9):
        words = words[1:]  # the root
    if len(words) not in (4, 8):
        return []
    found = []
    for place, first in enumerate(range(0, len(words), 4)):
        microseconds = _number(words[first])
        if microseconds is not None and microseconds > 0:
            found.append((int(match[1]), microseconds * 1e-6, place == 1))
    return found


def _number(word: str) -> float | None:
    if len(word) > 32:
        return None
    try:
        number = float(word)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
