"""hemiola systems: the list, a tree, and a system from what a cluster can tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.invoke import answer, refusal, succeed
from hemiola.cli import systems
from hemiola.topology.presets import abouts, load_system
from hemiola.topology.tree import system_tree
from topology.host_texts import PCI_XML, THREE_LEAVES, TOPO_TEXT, nvswitch_xml


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what a cluster can give, which is where the command runs."""
    (tmp_path / "node.xml").write_text(nvswitch_xml(4))
    (tmp_path / "pci.xml").write_text(PCI_XML)
    (tmp_path / "topo.txt").write_text(TOPO_TEXT)
    (tmp_path / "topology.conf").write_text(THREE_LEAVES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_list_has_every_system() -> None:
    text = succeed("systems")
    found = [
        line.split()[0]
        for line in text.splitlines()[1:]
        if line.startswith("  ") and not line.startswith("    ")
    ]
    assert found == list(abouts())
    assert answer("systems")["systems"] == [
        {"name": name, "about": about} for name, about in abouts().items()
    ]


def test_the_list_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systems, "load_system", None)
    assert "this-machine" in succeed("systems")


@pytest.mark.parametrize("words", [["dgx-a100:4"], ["show", "dgx-a100:4"]])
def test_a_system_is_shown_as_a_tree(words: list[str]) -> None:
    assert succeed("systems", *words) == system_tree(load_system("dgx-a100:4"))


def test_a_system_as_json() -> None:
    found = answer("systems", "dgx1-v100:2")
    assert list(found) == ["system", "notes", "file"]
    system = found["system"]
    assert (system["name"], system["num_ranks"], system["num_hosts"]) == ("dgx1-v100:2", 16, 2)
    assert system["levels"][0]["link"] == {
        "bandwidth_out": 12.5e9, "bandwidth_in": 12.5e9, "latency": 1.05e-06, "num": 4, "behind": [0, 0, 1, 1, 2, 2, 3, 3],
    }  # fmt: skip
    assert system["levels"][1]["link"] is None
    assert system["levels"][1]["fabric"]["bandwidth"] is None
    assert system["levels"][1]["fabric"]["edges"][0] == {
        "first": 0,
        "second": 1,
        "bandwidth": 25e9,
        "latency": 0.0,
    }
    assert system["compute"]["host_add_bandwidth"] is None
    assert system["protocols"]["LL"]["efficiency"] == 0.2


def test_what_is_different_is_in_the_json() -> None:
    assert answer("systems", "uneven-4x2")["system"]["exceptions"] == [
        {
            "unit": [3],
            "link": {"bandwidth_out": 6.25e6, "bandwidth_in": 6.25e6, "latency": 0.0, "num": 1, "behind": []},
        }
    ]


def test_a_system_is_written_and_read_again(folder: Path) -> None:
    assert succeed("systems", "dgx-a100:4", "-o", "own.yaml").endswith("wrote own.yaml\n")
    assert load_system("own.yaml") == load_system("dgx-a100:4")
    assert succeed("systems", "own.yaml") == succeed("systems", "dgx-a100:4")


def test_a_cluster_is_imported(folder: Path) -> None:
    text = succeed(
        "systems", "import", "--node", "node.xml", "--fabric", "topology.conf", "--hosts", "gpu[001-064]",
        "--uplink-bandwidth", "400GB/s", "--nic-latency", "2us", "--rails", "-o", "cluster.yaml",
    )  # fmt: skip
    assert text.splitlines() == [
        "cluster: 256 devices, 64 hosts (from node.xml)",
        "└─ leaf [3]: 400GB/s each way, on a switch",
        "   └─ host [21 to 22]: 4 links of 25GB/s each way, 2us, on rails",
        "      └─ gpu [4]: 300GB/s each way, on a switch",
        "except host 21 of leaf 0 and 1 more: missing",
        "hosts are called gpu001 to gpu064",
        "note: left out, because every device uses another NIC: storage",
        "note: what messages, additions and copies cost is not known; --like PRESET takes it from a preset",
        "wrote cluster.yaml",
    ]
    system = load_system("cluster.yaml")
    assert (system.name, system.num_hosts, system.num_ranks) == ("cluster", 64, 256)


def test_an_imported_system_costs_what_a_preset_does(folder: Path) -> None:
    succeed(
        "systems", "import", "--node", "topo.txt", "--hosts", "a,b", "--link-bandwidth", "25GB/s", "--nic-bandwidth",
        "200Gbit/s", "--like", "dgx-a100", "-o", "mine.yaml",
    )  # fmt: skip
    mine, preset = load_system("mine.yaml"), load_system("dgx-a100")
    assert (mine.protocols, mine.compute, mine.runtime) == (preset.protocols, preset.compute, preset.runtime)
    assert mine.num_ranks == 16


def test_an_import_as_json(folder: Path) -> None:
    found = answer(
        "systems", "import", "--node", "topo.txt", "--hosts", "a,b", "--link-bandwidth", "25GB/s", "--nic-bandwidth", "200Gbit/s"
    )  # fmt: skip
    assert (found["system"]["num_ranks"], found["system"]["host_names"], found["file"]) == (
        16,
        ["a", "b"],
        None,
    )
    assert found["notes"][0] == "left out, because every device uses another NIC: mlx5_8"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nonesuch"], "there is no system 'nonesuch'; hemiola systems lists those that are shipped"),
        (["dgx-a100:x"], "dgx-a100:x: expected a whole number from 1 to 131072 after the colon"),
        (["-o", "x.yaml"], "-o needs the NAME of a system; see "),
        (["dgx-a100", "-o", "no/such/folder/x.yaml"], "no/such/folder/x.yaml: No such file or directory"),
        (["import"], "Missing option '--node'; see "),
        (["import", "--node", "gone.xml"], "gone.xml: it cannot be read: No such file or directory"),
        (["import", "--node", "."], ".: it cannot be read: Is a directory"),
        (["import", "--node", "/dev/zero"], "/dev/zero: it has more than 4194304 bytes, which no such file needs"),
        (["import", "--node", "topology.conf"], "topology.conf: expected a head such as GPU0 GPU1 NIC0"),
        (["import", "--node", "node.xml", "--fabric", "topo.txt"], "topo.txt:1: expected a switch such as SwitchName=leaf1"),
        (["import", "--node", "node.xml", "--hosts", "a[1"], "--hosts: expected brackets in pairs"),
        (["import", "--node", "node.xml", "--hosts", ""], "--hosts: expected a node list such as gpu[001-064], found nothing"),
        (
            ["import", "--node", "pci.xml", "--hosts", "a,b", "--device-bandwidth", "300GB/s"],
            "the NIC's bandwidth is not in pci.xml: give --nic-bandwidth, such as 200Gbit/s",
        ),
        (
            ["import", "--node", "node.xml", "--fabric", "topology.conf"],
            "the bandwidth from a leaf switch up is not in the files: give --uplink-bandwidth, such as 800GB/s",
        ),
        (
            ["import", "--node", "pci.xml", "--nic-bandwidth", "25"],
            "Invalid value for '--nic-bandwidth': expected a bandwidth such as 200Mbit/s",
        ),
        (
            ["import", "--node", "pci.xml", "--nic-latency", "soon"],
            "Invalid value for '--nic-latency': expected a time such as 10us",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_named(folder: Path, words: list[str], message: str) -> None:
    assert refusal("systems", *words).startswith(message)


def test_nothing_is_written_where_something_is_missing(folder: Path) -> None:
    refusal("systems", "import", "--node", "pci.xml", "--hosts", "a,b", "-o", "x.yaml")
    assert not (folder / "x.yaml").exists()


def test_the_help_says_what_there_is() -> None:
    assert "import" in succeed("systems", "--help")
    assert "--uplink-bandwidth" in succeed("systems", "import", "--help")
