"""Moves: many operations of a program as one table, recorded in one call.

A program that says every operation by itself pays for each in Python; one that knows them as numbers, such as the
hops of a ring, makes them with NumPy. What is recorded and checked is the same:

    p.record_moves(copies(p, (0, "input", np.arange(4)), (1, "output", np.arange(4))))

is ``p.chunk(0, "input", k).copy(1, "output", k)`` for every k from 0 to 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hemiola.ir.chunk_dag import COPY, MOVE, REDUCE
from hemiola.ir.plan import Rows

if TYPE_CHECKING:
    from hemiola.language.program import Program

Numbers = int | npt.NDArray[np.integer]
Places = tuple[Numbers, "str | npt.NDArray[np.integer]", Numbers]
"""Ranks, buffers (a name, or numbers from ``Program.buffer_number``) and indices of the first chunks."""


def copies(p: Program, sources: Places, destinations: Places, counts: Numbers = 1) -> Rows:
    """A copy from every source to its destination; numbers and arrays are broadcast against each other."""
    return _moves(p, COPY, sources, destinations, counts)


def reductions(p: Program, sources: Places, destinations: Places, counts: Numbers = 1) -> Rows:
    """Every source is added to its destination."""
    return _moves(p, REDUCE, sources, destinations, counts)


def in_turn(*moves: Rows) -> Rows:
    """The first of every table, then the second of every table, and so on; the tables have the same shape."""
    return np.stack(moves, axis=-1)


def _moves(p: Program, kind: int, sources: Places, destinations: Places, counts: Numbers) -> Rows:
    columns = (kind, *_numbers(p, sources), *_numbers(p, destinations), counts)
    shape = np.broadcast_shapes(*(np.shape(column) for column in columns))
    fields = np.empty((*shape, len(columns)), "<i4")
    for number, column in enumerate(columns):
        fields[..., number] = column
    rows: Rows = fields.view(MOVE)[..., 0]
    return rows


def _numbers(p: Program, places: Places) -> tuple[Numbers, Numbers, Numbers]:
    rank, buffer, index = places
    return rank, p.buffer_number(buffer) if isinstance(buffer, str) else buffer, index
