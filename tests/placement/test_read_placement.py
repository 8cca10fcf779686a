"""A placement as a person writes it, as hemiola place writes it, and the one of plain order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hemiola.errors import PlacementError
from hemiola.placement.axes import parse_axes
from hemiola.placement.export import write_exports
from hemiola.placement.place import place
from hemiola.placement.read_placement import read_matrix, read_placement, row_major
from hemiola.placement.traffic import plain_traffic
from hemiola.topology.presets import load_system
from hemiola.topology.system import System


def test_row_major_is_what_a_reshape_gives() -> None:
    assert row_major(parse_axes("a=8,b=4"), (4, 8)).rows == ((4, 2), (1, 4))
    assert row_major(parse_axes("a=2,b=1,c=16"), (4, 8)).rows == ((2, 1), (1, 1), (2, 8))
    with pytest.raises(PlacementError, match="unevenly"):
        row_major(parse_axes("a=3,b=4"), (2, 6))


@pytest.mark.parametrize(
    "text", ["2x2;1x4", "2,2;1,4", "data=2x2;model=1x4", "data=2x2 model=1x4", " 2x2 ; 1x4; "]
)
def test_every_form_of_a_matrix_is_read(text: str) -> None:
    assert read_matrix(text, parse_axes("data=4,model=4"), (2, 8)).rows == ((2, 2), (1, 4))


def test_a_matrix_is_read_or_refused() -> None:
    axes = parse_axes("data=4,model=4")
    for text, words in (
        ("a", "a placement reads 1x4;2x2"),
        ("", "a placement reads 1x4;2x2"),
        ("2x2;-1x4", "a placement reads 1x4;2x2"),
        ("2,2", "has not 2 rows of 2 numbers"),
        ("2x2x1;1x4x1", "has not 2 rows of 2 numbers"),
        ("2,2;0,4", "has not 2 rows of 2 numbers above zero"),
        ("4,1;1,4", "the columns of"),
        ("2,1;1,4", "the rows of"),
    ):
        with pytest.raises(PlacementError, match=words):
            read_matrix(text, axes, (2, 8))


def test_axes_alone_are_row_major() -> None:
    placement = read_placement(load_system("2x4"), "data=4,model=2", None)
    assert placement.permutation == list(range(8))
    assert placement.matrix is not None
    assert placement.matrix.rows == ((2, 2), (1, 2))
    with pytest.raises(PlacementError, match="needs its axes"):
        read_placement(load_system("2x4"), None, None)
    with pytest.raises(PlacementError, match="nearest sizes that fit"):
        read_placement(load_system("2x4"), "data=3,model=2", None)


@pytest.mark.parametrize("name", ["2x4", "uneven-4x2", "2racks-2x2"])
def test_what_place_writes_is_read_back(name: str, tmp_path: Path) -> None:
    """Also where a search found a permutation that no matrix describes."""
    system, axes = load_system(name), parse_axes("data=4,model=2")
    result = place(system, axes, plain_traffic(axes, 1 << 20), replay=False)
    write_exports(result, tmp_path)
    found, placed = read_placement(system, None, str(tmp_path / "placement.json")), result.applied()
    assert found.axes == axes
    assert found.permutation == placed.permutation
    assert (found.matrix is None) == (placed.matrix is None)
    again = read_placement(system, "data=4,model=2", str(tmp_path / "placement.json"))
    assert again.permutation == found.permutation


def document(system: System, **changes: Any) -> dict[str, Any]:
    axes = {"data": 4, "model": 2}
    matrix = [[1, 4], [2, 1]]
    rows = read_placement(system, "data=4,model=2", "1x4;2x1")
    return {"axes": axes, "matrix": matrix, "permutation": rows.permutation, **changes}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"axes": None}, "expected axes, matrix and permutation"),
        ({"axes": {"data": 0}}, "expected axes, matrix and permutation"),
        ({"permutation": [0, 0, 1, 2, 3, 4, 5, 6]}, "not every device 0 to 7 once"),
        ({"permutation": "0"}, "not every device 0 to 7 once"),
        ({"permutation": list(range(8))}, "say different things"),
        ({"matrix": [["a"], 3]}, "a placement reads"),
        ({"axes": {"data": 4, "model": 3}}, "nearest sizes that fit"),
    ],
)
def test_a_changed_file_is_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    system, path = load_system("2x4"), tmp_path / "placement.json"
    path.write_text(json.dumps(document(system)))
    assert read_placement(system, None, str(path)).matrix is not None
    path.write_text(json.dumps(document(system, **changes)))
    with pytest.raises(PlacementError, match=words):
        read_placement(system, None, str(path))


def test_a_file_for_other_axes_or_that_is_no_json_is_refused(tmp_path: Path) -> None:
    system, path = load_system("2x4"), tmp_path / "placement.json"
    path.write_text(json.dumps(document(system)))
    with pytest.raises(PlacementError, match="its axes are data=4,model=2, but --axes says data=2,model=4"):
        read_placement(system, "data=2,model=4", str(path))
    path.write_text("[")
    with pytest.raises(PlacementError, match="this is not JSON"):
        read_placement(system, None, str(path))
