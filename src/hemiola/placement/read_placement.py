"""read_placement: a placement as `hemiola place` writes or prints it, or as a person writes it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

from hemiola.errors import PlacementError
from hemiola.placement.applied import AppliedPlacement
from hemiola.placement.axes import Axes, Axis, check_axes, check_sizes, parse_axes
from hemiola.placement.defaults import DefaultOrder
from hemiola.placement.enumerate import level_counts
from hemiola.placement.matrix import ParallelismMatrix
from hemiola.topology.parse.text_file import read_text_file
from hemiola.topology.system import System

LONGEST_TEXT = 1000
MAX_CHARACTERS = 1 << 26
FORM = "1x4;2x2, a row for each axis and a number for each level, or the placement.json that hemiola place writes"


def read_placement(system: System, axes_text: str | None, text: str | None) -> AppliedPlacement:
    """A placement from its axes and a matrix, from a file, or row-major from the axes alone."""
    if text is not None and (text.endswith(".json") or Path(text).is_file()):
        return _from_file(system, axes_text, text)
    if axes_text is None:
        raise PlacementError("a placement needs its axes, as in --axes data=8,model=4, or a placement.json")
    axes = parse_axes(axes_text)
    check_sizes(axes, system.num_ranks, system.name)
    counts = level_counts(system)
    matrix = row_major(axes, counts) if text is None else read_matrix(text, axes, counts)
    return AppliedPlacement(system, axes, matrix.device_grid(), matrix)


def read_matrix(text: str, axes: Axes, counts: tuple[int, ...]) -> ParallelismMatrix:
    """The matrix of a text; its rows multiply to the axes, its columns to the levels.

    A row reads ``1x4`` or ``1,4``, and may begin with the name of its axis, ``data=1x4``; rows are divided by semicolons or spaces.
    """
    rows = []
    for word in re.split(r"[;\s]+", text[:LONGEST_TEXT].strip().strip(";")):
        row = word.rpartition("=")[2]
        if not re.fullmatch(r"[0-9]{1,9}([x,][0-9]{1,9})*", row):
            raise PlacementError(f"a placement reads {FORM}, not {text[:60]!r}")
        rows.append(tuple(int(number) for number in re.split("[x,]", row)))
    if len(rows) != len(axes) or any(len(row) != len(counts) or min(row) < 1 for row in rows):
        raise PlacementError(
            f"placement {text[:60]!r} has not {len(axes)} rows of {len(counts)} numbers above zero, as the axes and levels need"
        )
    return ParallelismMatrix(axes, counts, tuple(rows))


def row_major(axes: Axes, counts: tuple[int, ...]) -> ParallelismMatrix:
    """Devices in order, the last axis changing fastest: what reshaping a list of devices gives."""
    found = DefaultOrder("row-major", tuple(range(len(axes)))).matrix(axes, counts)
    if found is None:
        raise PlacementError(
            f"axes of {[axis.size for axis in axes]} in plain order cut levels of {list(counts)} unevenly; give a placement "
            "with --placement"
        )
    return found


def _from_file(system: System, axes_text: str | None, path: str) -> AppliedPlacement:
    try:
        document = json.loads(read_text_file(path, MAX_CHARACTERS))
    except (ValueError, RecursionError):
        raise PlacementError(
            f"{path}: this is not JSON; expected the placement.json of hemiola place"
        ) from None
    axes = _axes(document, path)
    if axes_text is not None and parse_axes(axes_text) != axes:
        said = ",".join(f"{axis.name}={axis.size}" for axis in axes)
        raise PlacementError(
            f"{path}: its axes are {said}, but --axes says {axes_text}; leave one of them out"
        )
    check_sizes(axes, system.num_ranks, system.name)
    devices = document.get("permutation")
    if not isinstance(devices, list) or sorted(map(str, devices)) != sorted(
        map(str, range(system.num_ranks))
    ):
        raise PlacementError(f"{path}: permutation has not every device 0 to {system.num_ranks - 1} once")
    grid = np.array(devices, np.int64).reshape([axis.size for axis in axes])
    rows, matrix = document.get("matrix"), None
    if isinstance(rows, list):
        text = ";".join("x".join(map(str, row)) if isinstance(row, list) else "?" for row in rows)
        matrix = read_matrix(text, axes, level_counts(system))
        if (matrix.device_grid() != grid).any():
            raise PlacementError(
                f"{path}: its matrix and its permutation say different things; write it anew"
            )
    return AppliedPlacement(system, axes, grid, matrix)


def _axes(document: object, path: str) -> Axes:
    named = document.get("axes") if isinstance(document, dict) else None
    if not isinstance(named, dict) or not all(isinstance(size, int) and size >= 1 for size in named.values()):
        raise PlacementError(f"{path}: expected axes, matrix and permutation, as hemiola place writes them")
    return check_axes(Axis(str(name), size) for name, size in named.items())
