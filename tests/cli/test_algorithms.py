"""hemiola algorithms: the library and its cost cards."""

from __future__ import annotations

import pytest

from cli.invoke import answer, refusal, succeed
from hemiola.algorithms.library import ALGORITHMS


def test_the_list_has_every_algorithm() -> None:
    lines = succeed("algorithms").splitlines()
    assert [line.split()[0] for line in lines[1 : len(ALGORITHMS) + 1]] == list(ALGORITHMS)
    ring = next(line for line in lines if " allreduce_ring " in line)
    assert ring.split() == ["allreduce_ring", "14", "7/4", "S", "7/4", "S", "14", "S"]


def test_the_json_has_cost_cards() -> None:
    found = {one["name"]: one for one in answer("algorithms", "--ranks", 16, "--levels", "2,8")["algorithms"]}
    assert list(found) == list(ALGORITHMS)
    assert found["allreduce_ring"]["cost"]["steps"] == 30
    assert found["allreduce_hierarchical"]["cost"]["sent_fraction"] == "15/8"
    assert found["allreduce_hierarchical"]["parameters"]["levels"] is None
    assert found["allreduce_hierarchical"]["parameters"]["in_place"] == "false"


@pytest.mark.parametrize("ranks", [1, 2, 3, 7, 12])
def test_any_number_of_ranks(ranks: int) -> None:
    assert len(answer("algorithms", "--ranks", ranks)["algorithms"]) == len(ALGORITHMS)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_one_algorithm_says_what_it_does_and_takes(name: str) -> None:
    text = succeed("algorithms", name)
    assert text.startswith(f"{name}: {ALGORITHMS[name].summary}\n")
    for parameter in ALGORITHMS[name].parameters:
        assert f"  --{parameter.replace('_', '-')} " in text


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["allreduce_rign"], "did you mean allreduce_ring"),
        (["--ranks", "many"], "ranks is a whole number, but is 'many'"),
        (["allreduce_hierarchical", "--ranks", "6", "--levels", "4,4"], "allreduce_hierarchical"),
    ],
)
def test_bad_input_is_one_message(words: list[str], part: str) -> None:
    assert part in refusal("algorithms", *words)
