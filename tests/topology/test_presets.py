"""The machines that are shipped: their figures, their sizes, and names that are none of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from hemiola.errors import TopologyError
from hemiola.topology import this_machine as machine
from hemiola.topology.parse.yaml_system import read_system
from hemiola.topology.presets import FOLDER, abouts, load_system, preset_names
from hemiola.topology.shapes import shape_names
from hemiola.topology.system import System
from hemiola.topology.this_machine import CoreRates, measure_cores
from hemiola.topology.tree import system_tree
from hemiola.topology.write_system import write_system

DEVICE = {
    "azure-ncv4": 300e9, "azure-ndv2": 150e9, "azure-ndv4": 300e9, "azure-ndv5": 450e9, "dgx-a100": 300e9,
    "dgx1-v100": 150e9, "gb200-nvl72": 900e9, "hgx-b200": 900e9, "hgx-h100": 450e9, "hgx-h200": 450e9,
    "mi300x": 448e9, "p2-a100": 270e9, "p2-v100": 270e9,
}  # fmt: skip
"""What a device can send to the others around it, by data sheet."""
NICS = {
    "azure-ncv4": 80, "azure-ndv2": 100, "azure-ndv4": 1600, "azure-ndv5": 3200, "dgx-a100": 1600, "dgx1-v100": 400,
    "gb200-nvl72": 28800, "hgx-b200": 3200, "hgx-h100": 3200, "hgx-h200": 3200, "mi300x": 3200, "p2-a100": 64,
    "p2-v100": 64,
}  # fmt: skip
"""Gbit/s of all NICs of an outermost unit, by data sheet."""
SIZES = {"azure-ncv4": 4, "gb200-nvl72": 72, "p2-a100": 16}
RATES = CoreRates(6, 3e9, 5e9, 12e9, 20e9)


def sent_by_device(system: System, device: int) -> float:
    level = system.levels[-1]
    if level.link:
        return level.link.bandwidth_out * level.link.num
    return sum(edge.bandwidth for edge in level.fabric.edges if device in (edge.first, edge.second))


def test_every_preset_is_known_here() -> None:
    assert preset_names() == sorted(DEVICE) == sorted(NICS)


@pytest.mark.parametrize("name", DEVICE)
def test_a_preset_has_the_figures_of_its_data_sheet(name: str) -> None:
    system = load_system(name)
    assert system.num_ranks == SIZES.get(name, 8)
    for device in range(system.levels[-1].count):
        assert sent_by_device(system, device) == DEVICE[name]
    nic = system.levels[0].link
    assert nic is not None
    assert nic.bandwidth_out * nic.num * 8 == pytest.approx(NICS[name] * 1e9, rel=1e-12)


@pytest.mark.parametrize("name", DEVICE)
def test_every_nic_serves_as_many_devices(name: str) -> None:
    system = load_system(f"{name}:2")
    first = [device for device in system.devices if device[0] == 1]
    used = Counter(system.link_number((1,), device) for device in first)
    assert len(set(used.values())) == 1
    nic = system.link_of((1,))
    assert sorted(used) == list(range(nic.num))


@pytest.mark.parametrize("name", DEVICE)
def test_a_preset_says_where_its_figures_are_from(name: str) -> None:
    text = (FOLDER / f"{name}.yaml").read_text("utf-8")
    assert text.startswith("# ")
    assert any(word in text for word in ("data sheet", "white paper", "arXiv", "Azure, sizes/"))


MEMORY = {
    "azure-ncv4": 1935e9, "azure-ndv2": 900e9, "azure-ndv4": 1555e9, "azure-ndv5": 3350e9, "dgx-a100": 2039e9,
    "dgx1-v100": 900e9, "gb200-nvl72": 576e12 / 72, "hgx-b200": 64e12 / 8, "hgx-h100": 3350e9, "hgx-h200": 4800e9,
    "mi300x": 5300e9,
}  # fmt: skip
"""Bytes per second of a device's memory, by data sheet."""


@pytest.mark.parametrize("name", MEMORY)
def test_what_a_device_adds_and_copies_follows_from_its_memory(name: str) -> None:
    compute = load_system(name).compute
    # Rounded up where it must be, so that no bound is above what the memory allows.
    assert 1 <= compute.add_bandwidth / (MEMORY[name] / 3) < 1.001
    assert compute.copy_bandwidth == MEMORY[name] / 2


def test_the_nics_of_dgx1_are_behind_pairs_and_its_mesh_is_a_cube() -> None:
    system = load_system("dgx1-v100")
    assert [system.link_number((0,), device) for device in system.devices] == [0, 0, 1, 1, 2, 2, 3, 3]
    pairs = {(edge.first, edge.second): edge.bandwidth / 25e9 for edge in system.levels[1].fabric.edges}
    assert sum(pairs.values()) == 8 * 6 / 2
    assert {pair for pair in pairs if pair[0] < 4 <= pair[1]} == {(0, 4), (1, 5), (2, 6), (3, 7)}


@pytest.mark.parametrize("name", DEVICE)
def test_the_size_is_the_number_of_outermost_units(name: str) -> None:
    one, five = load_system(name), load_system(f"{name}:5")
    assert (five.name, five.num_ranks) == (f"{name}:5", 5 * one.num_ranks)
    assert five.levels[1:] == one.levels[1:]
    assert read_system(write_system(five)) == five


def test_shapes_and_files_are_systems_too(tmp_path: Path) -> None:
    assert load_system("rails-2x4").num_ranks == 8
    (tmp_path / "own.yaml").write_text(write_system(load_system("dgx-a100:3")))
    assert load_system(str(tmp_path / "own.yaml")) == load_system("dgx-a100:3")


def test_this_machine_is_measured_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "measure_cores", lambda: RATES)
    system, many = load_system("this-machine"), load_system("this-machine:32")
    assert (system.num_ranks, many.num_ranks, many.name, many.num_hosts) == (6, 32, "this-machine:32", 1)
    assert system.levels[0].link == many.levels[0].link
    assert (system.compute.add_bandwidth, system.compute.host_add_bandwidth) == (3e9, 12e9)
    assert "6 cores" in system.about


def test_the_cores_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "BUFFER_BYTES", 1 << 16)
    monkeypatch.setattr(machine, "ROUND_SECONDS", 0.001)
    rates = measure_cores.__wrapped__()
    assert rates.num_cores >= 1
    assert 0 < rates.add <= rates.all_add <= rates.add * rates.num_cores * (1 + 1e-9)
    assert 0 < rates.copy <= rates.all_copy


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dgx-a10", "there is no system 'dgx-a10'; did you mean dgx-a100?"),
        ("dgxa100:4", "there is no system 'dgxa100:4'; did you mean dgx-a100?"),
        ("", "there is no system ''; hemiola systems lists those that are shipped, and a YAML file does as well"),
        ("qqq", "there is no system 'qqq'; hemiola systems lists those that are shipped, and a YAML file does as well"),
        ("dgx-a100:", "dgx-a100:: expected a whole number from 1 to 131072 after the colon, as in dgx-a100:2, found ''"),
        ("dgx-a100:0", "dgx-a100:0: expected a whole number from 1 to 131072 after the colon, as in dgx-a100:2, found '0'"),
        ("dgx-a100:x", "dgx-a100:x: expected a whole number from 1 to 131072 after the colon, as in dgx-a100:2, found 'x'"),
        ("dgx-a100:٤", "dgx-a100:٤: expected a whole number from 1 to 131072 after the colon, as in dgx-a100:2, found '٤'"),
        ("2x4:3", "2x4:3: the shape 2x4 has its size in its name; leave out :3"),
        ("none.yaml", "none.yaml: it cannot be read: No such file or directory"),
    ],
)  # fmt: skip
def test_a_name_of_nothing_is_named(name: str, message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        load_system(name)
    assert str(caught.value) == message


def test_every_system_has_a_line_about_it() -> None:
    assert list(abouts()) == [*preset_names(), *shape_names(), "this-machine"]
    assert all(abouts().values())


@pytest.mark.parametrize("name", ["dgx1-v100:2", "dgx-a100:4", "azure-ncv4", "uneven-4x2", "2racks-2x2"])
def test_the_tree_of_a_system(name: str, golden: object) -> None:
    assert callable(golden)
    golden(f"systems/{name.replace(':', '-')}.txt", system_tree(load_system(name)))
