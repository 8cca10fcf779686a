"""NCCL's tuner file: every line is taken by rules of the plugin that reads it, written down once more here."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.invoke import answer, succeed
from hemiola.collectives import CollectiveKind
from hemiola.cost.request import CollectiveRequest
from hemiola.topology.presets import load_system
from hemiola.tuning.exports.nccl_tuner import (
    CSV_NAME,
    HEADER,
    README_NAME,
    has_nvls,
    nccl_csv,
    write_nccl_csv,
)
from hemiola.tuning.tune import tune

COLLECTIVES = {"broadcast", "reduce", "allgather", "reducescatter", "allreduce"}
ALGORITHMS = {"tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"}
PROTOCOLS = {"ll", "ll128", "simple"}
LONGEST_LINE = 255


def read_as_the_plugin(text: str) -> list[list[str]]:
    """The rows that the example plugin of NCCL loads. What it would misread without a word is a failure here."""
    rows = []
    for line in text.splitlines():
        assert len(line) < LONGEST_LINE
        if not line or line.startswith("#"):
            continue
        words = [word.strip(" \t") for word in line.split(",")]
        assert 8 <= len(words) <= 10
        # The plugin takes unknown words for allreduce, ring and simple.
        assert words[0] in COLLECTIVES
        assert words[3] in ALGORITHMS
        assert words[4] in PROTOCOLS
        numbers = [int(word) for word in (*words[1:3], *words[5:])]
        assert 0 <= numbers[0] <= numbers[1]
        assert all(number == -1 or number > 0 for number in numbers[2:5])
        assert not (words[3].startswith("nvls") and words[4] != "simple")
        rows.append(words)
    return rows


def apply(rows: list[list[str]], kind: str, num_bytes: int, nodes: int, ranks: int) -> list[str] | None:
    """What the plugin asks for: the first row that matches."""
    for coll, least, most, *wanted, num_nodes, num_ranks in rows:
        fits = int(least) <= num_bytes <= int(most) and [int(num_nodes), int(num_ranks)] == [nodes, ranks]
        if coll == kind and fits:
            return wanted
    return None


@pytest.mark.parametrize(("system", "nodes"), [("dgx-a100", 1), ("hgx-h100", 1), ("hgx-h100:2", 2)])
def test_every_size_has_one_row_with_the_channels_of_nccl(system: str, nodes: int) -> None:
    machine = load_system(system)
    sizes = [1 << exponent for exponent in range(12, 29, 4)]
    request = CollectiveRequest.of_groups(CollectiveKind.ALLREDUCE, machine, [range(machine.num_ranks)])
    rows = read_as_the_plugin("\n".join(nccl_csv(tune(request, sizes))))
    for size in sizes:
        wanted = apply(rows, "allreduce", size, nodes, machine.num_ranks)
        assert wanted is not None
        assert wanted[2] == "-1"
    largest = apply(rows, "allreduce", sizes[-1], nodes, machine.num_ranks)
    assert largest is not None
    if system == "dgx-a100":
        assert largest[0] in ("ring", "tree")
    else:
        assert largest[0] == ("nvls" if nodes == 1 else "nvls_tree")
    assert apply(rows, "allgather", sizes[0], nodes, machine.num_ranks) is None


@pytest.mark.parametrize(
    ("system", "kind", "groups", "expected"),
    [
        ("hgx-h100", "allreduce", [list(range(8))], True),
        ("hgx-h100", "allgather", [list(range(8))], False),
        ("dgx-a100", "allreduce", [list(range(8))], False),
        ("hgx-h100", "allreduce", [[0, 1], [2, 3]], False),
        ("hgx-h100:2", "allreduce", [[0, 8], [1, 9]], False),
    ],
)
def test_who_has_nvls(system: str, kind: str, groups: list[list[int]], expected: bool) -> None:
    assert (
        has_nvls(CollectiveRequest.of_groups(CollectiveKind(kind), load_system(system), groups)) is expected
    )


def test_the_file_has_a_header_and_keeps_other_collectives(tmp_path: Path) -> None:
    write_nccl_csv(["allreduce,1,2,ring,ll,-1,1,4"], tmp_path, system="x")
    write_nccl_csv(["allgather,1,2,ring,ll,-1,1,4"], tmp_path, system="x")
    path, about = write_nccl_csv(["allreduce,1,9,tree,ll,-1,1,4"], tmp_path, system="x")
    assert path.read_text() == f"{HEADER}\nallgather,1,2,ring,ll,-1,1,4\nallreduce,1,9,tree,ll,-1,1,4\n"
    assert len(read_as_the_plugin(path.read_text())) == 2
    text = about.read_text()
    assert "NCCL_TUNER_PLUGIN=" in text
    assert f"NCCL_TUNER_CONFIG_FILE=$PWD/{CSV_NAME}" in text


def test_the_command_says_where_the_instructions_are(tmp_path: Path) -> None:
    words = ["tune", "allreduce", "--system", "hgx-h100", "--sizes", "1MiB..64MiB", "-o"]
    files = answer(*words, tmp_path / "a")["files"]
    assert {CSV_NAME, README_NAME} <= {Path(file).name for file in files}
    assert README_NAME in succeed(*words, tmp_path / "b")
    rows = read_as_the_plugin((tmp_path / "a" / CSV_NAME).read_text())
    assert {row[5] for row in rows} == {"-1"}
