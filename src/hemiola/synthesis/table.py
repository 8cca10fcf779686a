"""Table: the state graph of a request over so many factors, without the states that lead nowhere.

A table is found once per depth and holds for factors of any sizes. Its states are numbered so that every step leads to a
higher number, the start is state 0, and all goals come last. Tables are kept in the user's cache folder,
under the version of the file and a digest of the rules' own source, with a digest of their contents; what does not match
is made anew.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from hemiola.cache import cache_folder
from hemiola.collectives import CollectiveKind
from hemiola.errors import ReductionError
from hemiola.synthesis.explore import Explored, explore
from hemiola.synthesis.groups import groupings, instruction_of
from hemiola.synthesis.program import STEPS, Instruction, ReductionProgram

VERSION = 1
"""Of the file's form."""
RULES = ("explore.py", "groups.py", "program.py", "semantics.py", "state.py")
"""The files beside this one that decide what a table holds; a change of one makes all kept tables void."""
DEEPEST = 4
"""Factors above 1 of a hierarchy; its state graph at five is too large to keep."""

EDGE = np.dtype(
    [("source", "<i4"), ("target", "<i4"), ("grouping", "u1"), ("collective", "u1"), ("scatterings", "<u8")]
)
"""A step; bit s of ``scatterings`` says that a group's members hold data cut over the factors of the bits of s."""


@dataclass(frozen=True)
class Table:
    """All programs of a request, as the paths of a graph."""

    depth: int
    request: CollectiveKind
    num_states: int
    """Live ones: from which a goal can be reached."""
    num_explored: int
    """All that steps reach from the start."""
    first_goal: int
    """States from this one on are goals."""
    edges: npt.NDArray[np.void]
    """Rows of EDGE, by source."""

    @cached_property
    def kinds(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Different steps, a row (grouping, collective, scatterings) each, and which of them every edge is."""
        columns = [self.edges[name].astype(np.int64) for name in ("grouping", "collective", "scatterings")]
        distinct, inverse = np.unique(np.stack(columns), axis=1, return_inverse=True)
        return distinct.T, inverse.reshape(-1)

    def instruction(self, edge: int) -> Instruction:
        """The step of an edge."""
        row = self.edges[edge]
        grouping = groupings(self.depth)[int(row["grouping"])]
        return instruction_of(grouping, STEPS[int(row["collective"])], self.depth)

    def program(self, path: tuple[int, ...]) -> ReductionProgram:
        """The program of a path of edges."""
        return ReductionProgram(self.depth, tuple(self.instruction(edge) for edge in path))

    def first_edges(self) -> npt.NDArray[np.int64]:
        """Where the edges of every state begin, and one past the last."""
        return np.searchsorted(self.edges["source"], np.arange(self.num_states + 1))


@lru_cache(maxsize=16)
def table_of(depth: int, request: CollectiveKind = CollectiveKind.ALLREDUCE) -> Table:
    """The table of a request, from the cache folder where it has been made before."""
    if not 1 <= depth <= DEEPEST:
        raise ReductionError(
            f"a reduction over {depth} factors above 1 is not possible: tables are made for 1 to {DEEPEST};"
            " merge levels of the system, or reduce over fewer axes"
        )
    path = cache_folder() / f"reductions-v{VERSION}-{_digest_of_rules()}-{request.value}-{depth}.npz"
    kept = _read(path, depth, request)
    if kept is not None:
        return kept
    table = live_part(explore(depth, request))
    with suppress(OSError):  # a folder that cannot be written costs only time
        _write(path, table)
    return table


def live_part(explored: Explored) -> Table:
    """Keep what leads to a goal, and number it in the order of steps."""
    before: dict[int, list[int]] = defaultdict(list)
    for edge in explored.edges:
        before[edge.target].append(edge.source)
    live, left = set(explored.goals), list(explored.goals)
    while left:
        for source in before[left.pop()]:
            if source not in live:
                live.add(source)
                left.append(source)
    edges = [edge for edge in explored.edges if edge.source in live and edge.target in live]
    order = _in_order(live, explored.goals, [(edge.source, edge.target) for edge in edges])
    assert all(not edge.scatterings >> (1 << explored.depth) for edge in edges)
    rows = sorted(
        (order[edge.source], order[edge.target], edge.grouping, edge.collective, edge.scatterings)
        for edge in edges
    )
    return Table(
        explored.depth,
        explored.request,
        len(live),
        len(explored.states),
        len(live) - len(explored.goals),
        np.array(rows, EDGE),
    )


def _in_order(live: set[int], goals: set[int], edges: list[tuple[int, int]]) -> dict[int, int]:
    """A number for every live state, below those of all states that steps lead to; goals last."""
    waiting, after = dict.fromkeys(live, 0), defaultdict(list)
    for source, target in edges:
        waiting[target] += 1
        after[source].append(target)
    ready = [0]
    order: dict[int, int] = {}
    reached: list[int] = []
    while ready:
        state = ready.pop()
        if state in goals:
            reached.append(state)
        else:
            order[state] = len(order)
        for target in after[state]:
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    for state in reached:
        order[state] = len(order)
    assert len(order) == len(live)
    return order


@lru_cache(maxsize=1)
def _digest_of_rules() -> str:
    folder = Path(__file__).parent
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in RULES)).hexdigest()[:16]


def _digest(numbers: npt.NDArray[np.int64], edges: npt.NDArray[np.void]) -> str:
    return hashlib.sha256(numbers.tobytes() + edges.tobytes()).hexdigest()


def _write(path: Path, table: Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    numbers = np.array(
        [VERSION, table.depth, table.num_states, table.num_explored, table.first_goal], np.int64
    )
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        np.savez_compressed(
            file, numbers=numbers, edges=table.edges, digest=np.array(_digest(numbers, table.edges))
        )
    Path(file.name).replace(path)


def _read(path: Path, depth: int, request: CollectiveKind) -> Table | None:
    """A kept table; None where there is none or it is not whole."""
    try:
        with np.load(path, allow_pickle=False) as kept:
            numbers, edges, digest = kept["numbers"], kept["edges"], str(kept["digest"])
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
    if edges.dtype != EDGE or _digest(numbers, edges) != digest or numbers[0] != VERSION:
        return None
    _, kept_depth, num_states, num_explored, first_goal = map(int, numbers)
    if kept_depth != depth:
        return None
    return Table(depth, request, num_states, num_explored, first_goal, edges)
