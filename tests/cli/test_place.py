"""hemiola place: tables, JSON, files and refusals."""

from __future__ import annotations

import json
from pathlib import Path

from cli.invoke import answer, invoke, refusal, succeed

COMMON = ("--system", "dgx-a100:4", "--axes", "data=8,model=4")


def test_json() -> None:
    found = answer("place", *COMMON, "--traffic", "[{collective: allreduce, over: data, bytes: 1GiB}]")
    assert found["num_placements"] == len(found["placements"]) == 3
    first = found["placements"][0]
    assert first["matrix"] == [[1, 8], [4, 1]]
    assert first["bound_seconds"] <= first["seconds"] < first["default_seconds"]
    assert first["default_seconds"] == min(default["seconds"] for default in found["defaults"])
    assert [part["name"] for part in first["requests"]] == ["allreduce over data"]
    assert not found["default_is_best"]


def test_assumed_traffic_is_said_loudly(tmp_path: Path) -> None:
    text = succeed("place", *COMMON, "--quick", "-o", tmp_path)
    assert text.startswith("ASSUMED: no --traffic was given, so an all-reduce of 1GiB over each axis")
    assert "no --traffic was given" in (tmp_path / "README.md").read_text()
    result = invoke("place", "--json", *COMMON, "--quick")
    assert result.stderr.startswith("warning: no --traffic was given")
    assert json.loads(result.stdout)["assumed_traffic"].startswith("no --traffic was given")
    said = answer(
        "place", *COMMON, "--quick", "--traffic", "[{collective: allreduce, over: data, bytes: 1GiB}]"
    )
    assert said["assumed_traffic"] is None


def test_words_and_files(tmp_path: Path) -> None:
    text = succeed("place", *COMMON, "-o", tmp_path, "--host-cpus", "2x64")
    assert "slot=64-127" in (tmp_path / "rankfile").read_text()
    assert "README.md says how to apply each" in text
    assert "3 of 3 placements" in text
    assert "1.17x" in text
    assert {"rankfile", "jax_mesh.py", "placement.json"} <= {path.name for path in tmp_path.iterdir()}


def test_the_default_is_kept_and_said() -> None:
    text = succeed("place", *COMMON, "--traffic", "[{collective: allreduce, over: model, bytes: 1GiB}]")
    assert "Nothing is faster than the default: keep it." in text


def test_a_model_from_a_file_and_the_top(tmp_path: Path) -> None:
    path = tmp_path / "traffic.yaml"
    path.write_text(
        "traffic: {from: megatron, hidden: 4096, layers: 32, heads: 32, seq: 4096, micro_batch: 1, global_batch: 64}\n"
    )
    found = answer("place", *COMMON, "--traffic", path, "--top", "1")
    assert len(found["placements"]) == 1
    assert found["default_is_best"]
    assert {request["collective"] for request in found["traffic"]["requests"]} == {"allreduce"}


def test_uneven_systems_are_searched() -> None:
    traffic = ["--traffic", "[{collective: allreduce, over: data, bytes: 1GiB}]"]
    found = answer("place", "--system", "uneven-4x2", "--axes", "data=4,model=2", *traffic)
    assert sorted(found["permutation"]["devices"]) == list(range(8))
    assert "The system is uneven" in succeed("place", "--system", "uneven-4x2", "--axes", "data=4,model=2")


def test_bad_input_is_one_message() -> None:
    assert "the nearest sizes that fit are data=8,model=4" in refusal(
        "place", "--system", "dgx-a100:4", "--axes", "data=6,model=4"
    )
    assert "there is no system" in refusal("place", "--system", "nothing", "--axes", "data=2")
    assert "expected names and sizes" in refusal("place", "--system", "2x4", "--axes", "data")
    assert "did you mean data?" in refusal(
        "place", *COMMON, "--traffic", "[{collective: allreduce, over: date, bytes: 1}]"
    )
    assert "cannot be read" in refusal("place", *COMMON, "--traffic", "missing.yaml")
