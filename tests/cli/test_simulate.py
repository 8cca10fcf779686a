"""hemiola simulate: the time, the reasons, the trace and the JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.invoke import answer, refusal, succeed


def test_the_levels_of_an_algorithm_are_those_of_the_system() -> None:
    words = ("simulate", "allreduce_hierarchical", "--system", "2x4", "--json")
    assert succeed(*words) == succeed(*words, "--", "--ranks=8", "--levels=2,4")
    assert "needs levels" in refusal("simulate", "allreduce_hierarchical", "--system", "dgx-a100:1")


def test_an_algorithm_runs_on_all_ranks_of_a_system() -> None:
    text = succeed("simulate", "allreduce_ring", "--system", "2x4", "--bytes", "64MiB")
    assert text.startswith("allreduce_ring on 2x4: 4.698s\n")
    assert "100%  waiting for NIC 0 of host 0, out (3 more alike)" in text
    assert "busiest link         NIC 0 of host 0, out, 100% of the time" in text


def test_the_json_has_the_promised_keys(tmp_path: Path) -> None:
    plan = tmp_path / "h.plan"
    succeed("compile", "allreduce_hierarchical", "-o", plan, "--levels", "4,2")
    found = answer("simulate", plan, "--system", "uneven-4x2", "--bytes", "1MiB")
    assert found["seconds"] == pytest.approx(max(found["rank_seconds"]))
    assert found["bound_seconds"] is None or found["bound_seconds"] <= found["seconds"]
    assert found["critical_path"][0]["what"].startswith("waiting for NIC 0 of host 3")
    assert sum(reason["part"] for reason in found["critical_path"]) == pytest.approx(1)
    assert (found["system"], found["bytes"], found["num_ranks"]) == ("uneven-4x2", 1 << 20, 8)


def test_a_trace_is_written(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    succeed("simulate", "allgather_ring", "--system", "4x2", "--bytes", "64KiB", "--trace", path)
    assert {event["pid"] for event in json.loads(path.read_text())["traceEvents"]} == set(range(8))


def test_slots_and_tiles_can_be_chosen() -> None:
    arguments = ("simulate", "broadcast_chain", "--system", "wan-2x1", "--bytes", "1MiB")
    usual, one = answer(*arguments), answer(*arguments, "--slots", 2, "--tile", "16KiB")
    assert one["num_tiles"] > usual["num_tiles"]
    assert one["seconds"] > usual["seconds"]  # two small messages at a time over a long way


def test_idle_devices_and_groups_are_said() -> None:
    words = ("simulate", "allreduce_ring", "--system", "2x4")
    assert "0 to 3; the other 4 of 8 are idle" in succeed(*words, "--", "--ranks=4")
    assert "2 groups of 4 at once, 8 of 8 devices" in succeed(
        *words, "--axes", "data=4,model=2", "--over", "data"
    )
    alone = answer(*words, "--", "--ranks=4")
    assert (alone["num_idle_devices"], alone["num_groups"]) == (4, 1)
    assert "idle" not in succeed(*words)


def test_of_much_data_the_first_tiles_are_replayed_and_that_is_said() -> None:
    words = ("simulate", "allreduce_ring", "--system", "2x4", "--bytes", "64GiB")
    found = answer(*words)
    assert 0 < found["num_replayed_tiles"] < found["num_tiles"]
    assert f"{found['num_replayed_tiles']} of {found['num_tiles']} replayed" in succeed(*words)
    # A ring keeps the NIC busy all the time, so the whole takes what the NIC needs for its bytes.
    assert found["seconds"] == pytest.approx(2 * 7 / 8 * (64 << 30) / 25e6, rel=1e-3)


def test_bad_input(tmp_path: Path) -> None:
    assert "there is no system '9x9'" in refusal("simulate", "allreduce_ring", "--system", "9x9")
    too_many = refusal("simulate", "allreduce_ring", "--system", "2x4", "--", "--ranks=16")
    assert "has 16 ranks, but system '2x4' has 8 devices" in too_many
    trace = tmp_path / "t.json"
    large = ("--system", "dgx-a100:32", "--runtime", "hemiola", "--bytes", "1GiB", "--tile", "64KiB")
    theirs = refusal("simulate", "allreduce_ring", "--system", "dgx-a100", "--tile", "64KiB")
    assert "nccl has messages and slots of its own" in theirs
    many = refusal("simulate", "allreduce_ring", *large, "--trace", trace)
    assert "a trace has at most 1000000 steps" in many
    assert "take fewer bytes or larger tiles" in many
    assert not trace.exists()
    endless = refusal("simulate", "allreduce_ring", "--system", "2x4", "--bytes", "9PB")
    assert "at most 4194304 are simulated; take fewer bytes or larger tiles" in endless
