"""The shapes of the lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from hemiola.errors import TopologyError
from hemiola.topology.shapes import load_shape, shape_names

RANKS = {
    "2racks-2x2": 8, "2x4": 8, "4x2": 8, "4x4": 16, "rails-2x4": 8, "uneven-4x2": 8, "wan-2x1": 2,
}  # fmt: skip


def test_the_shapes_that_are_shipped() -> None:
    assert shape_names() == sorted(RANKS)


@pytest.mark.parametrize("name", RANKS)
def test_a_shape_has_its_name_and_its_ranks(name: str) -> None:
    system = load_shape(name)
    assert (system.name, system.num_ranks) == (name, RANKS[name])
    assert system.about
    assert system.levels[system.host_depth - 1].name == "host"


def test_the_odd_ones() -> None:
    rails = load_shape("rails-2x4")
    assert rails.levels[0].fabric.kind == "rails"
    assert [rails.link_number((0,), device) for device in rails.devices[:4]] == [0, 1, 2, 3]
    uneven = load_shape("uneven-4x2")
    assert uneven.link_of((3,)).bandwidth_out * 4 == uneven.link_of((0,)).bandwidth_out


def test_a_file_is_a_shape_too(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("levels: [{name: rank, count: 3, link: {bandwidth: 1GB/s}}]")
    assert (load_shape(str(path)).name, load_shape(str(path)).num_ranks) == ("own.yaml", 3)


def test_what_is_no_shape_is_named(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match=r"there is no shape '2x44'; did you mean 2x4\?"):
        load_shape("2x44")
    with pytest.raises(
        TopologyError, match=r"there is no shape 'moon'; shipped are 2racks-2x2, 2x4, .*YAML file"
    ):
        load_shape("moon")
    with pytest.raises(TopologyError, match=r"none.yaml: it cannot be read: No such file"):
        load_shape(str(tmp_path / "none.yaml"))
    (tmp_path / "latin.yaml").write_bytes(b"name: \xff")
    with pytest.raises(TopologyError, match=r"latin.yaml: it cannot be read: "):
        load_shape(str(tmp_path / "latin.yaml"))
