"""hemiola show: text and JSON of a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.invoke import answer, refusal, succeed
from hemiola.ir.formats import read_plan
from hemiola.ir.text import plan_text


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    out = tmp_path / "h.plan"
    succeed("compile", "allreduce_hierarchical", "-o", out, "--levels", "2,2")
    return out


def test_the_whole_plan(plan: Path) -> None:
    assert succeed("show", plan) == plan_text(read_plan(plan))


def test_some_ranks(plan: Path) -> None:
    text = succeed("show", plan, "--rank", 3, "--rank", 1)
    assert [line for line in text.splitlines() if line.startswith("rank")] == [
        f"rank {rank}: input 4, output 4, scratch 0" for rank in (3, 1)
    ]


def test_the_json_has_every_step(plan: Path) -> None:
    found, whole = answer("show", plan), read_plan(plan)
    blocks = [block for rank in found["ranks"] for block in rank["threadblocks"]]
    steps = [step for block in blocks for step in block["steps"]]
    assert (found["num_steps"], len(blocks), len(steps)) == (
        whole.num_steps,
        len(whole.threadblocks),
        whole.num_steps,
    )
    assert sum(len(step["after"]) for step in steps) == len(whole.dependencies)
    assert {step["line"].rpartition(":")[0] for step in steps} == {"hemiola/algorithms/rings.py"}
    first = steps[0]
    assert (first["opcode"], first["source"]["buffer"], first["destination"]) == ("s", "output", None)


@pytest.mark.parametrize("rank", [-1, 4, 99])
def test_a_rank_that_does_not_exist(plan: Path, rank: int) -> None:
    assert f"there are ranks 0 to 3, not {rank}" in refusal("show", plan, "--rank", rank)
