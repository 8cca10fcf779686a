"""Journal: measurements as they come in, a line each, so that an interrupted run goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from hemiola.fusion.plan import Group
from hemiola.integrations.torch.measuring.timing import Timing


class JournalEntry(NamedTuple):
    """One group, measured once by one process."""

    graph: str
    """The key of its graph, see `measured_key`."""
    group: Group
    process: int
    outcome: Timing | str
    """The time, or in one line why there is none."""


class Journal:
    """The file; a last line that was cut off by a kill is as if it had not been written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.entries: list[JournalEntry] = []
        if path.exists():
            text = path.read_text("utf-8")
            whole, _, cut = text.rpartition("\n")
            self.entries = [_parse(line) for line in whole.splitlines()]
            if cut:
                path.write_text(f"{whole}\n" if whole else "", "utf-8")

    def add(self, entries: Iterable[JournalEntry]) -> None:
        """Written before it returns."""
        new = list(entries)
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(f"{_line(one)}\n" for one in new)
        self.entries += new


def _line(one: JournalEntry) -> str:
    outcome = (
        one.outcome
        if isinstance(one.outcome, str)
        else [one.outcome.seconds, one.outcome.spread, one.outcome.reference_seconds]
    )
    return json.dumps([one.graph, list(one.group), one.process, outcome])


def _parse(line: str) -> JournalEntry:
    graph, group, process, outcome = json.loads(line)
    timing = outcome if isinstance(outcome, str) else Timing(*map(float, outcome))
    return JournalEntry(str(graph), tuple(map(int, group)), int(process), timing)
