"""hemiola synthesize."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.invoke import answer, refusal, succeed
from hemiola.cli.main import main
from hemiola.ir.formats import read_plan

ASKED = ["synthesize", "--system", "dgx-a100:2", "--axes", "data=4,model=4", "--bytes", "64MiB"]


def test_json_has_programs_with_steps_and_times() -> None:
    result = CliRunner().invoke(main, [*ASKED, "--reduce", "data", "--quick", "--top", "2", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["matrix"] == [[2, 2], [1, 4]]
    assert len(found["programs"]) == 2
    for one in found["programs"]:
        assert one["seconds"] >= one["bound_seconds"] > 0
        assert one["baseline_seconds"] == found["baselines"][0]["seconds"]
        for step in one["steps"]:
            assert all(len(set(group)) == len(group) for group in step["groups"])
    inside = found["programs"][0]["steps"][0]
    assert (inside["collective"], inside["form"]) == ("reducescatter", "InsideGroup")
    assert sorted(inside["groups"]) == [[0, 4], [1, 5], [2, 6], [3, 7], [8, 12], [9, 13], [10, 14], [11, 15]]


def test_a_placement_says_which_devices_reduce_together() -> None:
    """The first axis inside hosts instead of row-major; its groups are then those of neighbours."""
    found = answer(*ASKED, "--reduce", "data", "--quick", "--top", 1, "--placement", "data=1x4;model=2x2")
    assert found["matrix"] == [[1, 4], [2, 2]]
    assert found["factors"] == [4]
    devices = {
        device for step in found["programs"][0]["steps"] for group in step["groups"] for device in group
    }
    assert devices == set(range(16))
    assert all(
        len({device // 8 for device in group}) == 1
        for step in found["programs"][0]["steps"]
        for group in step["groups"]
    )


def test_the_table_says_which_is_kept() -> None:
    result = CliRunner().invoke(main, [*ASKED, "--reduce", "data", "--top", "2"])
    assert result.exit_code == 0, result.output
    assert "The default is kept" in result.stdout or "times as fast as the best default" in result.stdout
    assert "speed-up" in result.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--axes", "data=5,model=4", "--reduce", "data"], "the nearest sizes that fit are data=4,model=4"),
        (["--axes", "data", "--reduce", "data"], "data=8,model=4"),
        (["--axes", "data=4,data=4", "--reduce", "data"], "twice"),
        (["--axes", "data=4,model=4", "--reduce", "pipeline"], "no axis 'pipeline'"),
        (["--axes", "data=16,one=1", "--reduce", "one"], "nothing to reduce"),
        (
            ["--axes", "data=4,model=4", "--reduce", "data", "--placement", "4x1;1x4"],
            "the columns of [4 1] [1 4] multiply to",
        ),
        (["--axes", "data=4,model=4", "--reduce", "data", "--placement", "a"], "a placement reads 1x4;2x2"),
    ],
)
def test_bad_input_is_one_sentence(options: list[str], words: str) -> None:
    result = CliRunner().invoke(
        main, ["synthesize", "--system", "dgx-a100:2", "--bytes", "1MiB", *options, "--quick"]
    )
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_plan_of_the_first_program_is_written_and_proven(tmp_path: Path) -> None:
    plan = tmp_path / "reduction.xml"
    asked = (*ASKED, "--reduce", "data", "--top", 1)
    text = succeed(*asked, "-o", plan, "--target", "msccl-xml")
    assert "Its plan: " in text
    assert read_plan(str(plan)).num_ranks == 4
    assert answer("verify", plan)["ok"]
    no_plan = refusal(*asked, "--quick", "-o", tmp_path / "quick.plan")
    assert "there is no plan: programs are compiled for groups of up to 128 devices" in no_plan
    assert not (tmp_path / "quick.plan").exists()
