"""One price: the same plan on the same system at the same size takes the same seconds in every verb and in Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hemiola
from cli.invoke import answer as run_json
from hemiola.collectives import CollectiveKind
from hemiola.cost.replay_seconds import replay_seconds
from hemiola.cost.time_source import TimeSource
from hemiola.ir.formats.native import write_native
from hemiola.ir.plan import Plan
from hemiola.placement.requests import find_request
from hemiola.placement.traffic import Traffic, TrafficRequest
from hemiola.synthesis.synthesize import synthesize
from plain_systems import plain_system

EXACT = 1e-9

PLACED = [
    ("dgx-a100:2", "data=4,model=4", "2x2;1x4"),
    ("dgx-a100:2", "data=16", "2x8"),
    ("azure-ncv4:2", "data=4,model=2", "2x1x2;1x2x1"),
    ("mi300x", "data=2,model=4", "1x2;1x4"),
    ("p2-v100:2", "data=8,model=2", "2x4;1x2"),
]
KINDS = ("allreduce", "allgather", "reducescatter", "alltoall")
SIZES = (1 << 18, 1 << 24)
CASES = [(*placed, kind, size) for placed in PLACED for kind in KINDS for size in SIZES]


@pytest.mark.parametrize(("system", "axes", "placement", "kind", "num_bytes"), CASES)
def test_every_verb_says_the_same_seconds(
    tmp_path: Path, system: str, axes: str, placement: str, kind: str, num_bytes: int
) -> None:
    where = ("--system", system, "--axes", axes, "--placement", placement)
    tuned = hemiola.tune(kind, system, [num_bytes], axes=axes, placement=placement, over="data")
    chosen = tuned.sizes[0].chosen
    expected = pytest.approx(chosen.seconds, rel=EXACT)

    # The plan that tune found, as a file, simulated by the command and by the function.
    path = tmp_path / "chosen.plan"
    write_native(chosen.plan, path)
    said = run_json("simulate", str(path), *where, "--over", "data", "--bytes", str(num_bytes))
    assert said["seconds"] == expected
    assert said["source"] == TimeSource.REPLAYED
    found = hemiola.simulate(chosen.plan, system, num_bytes, axes=axes, placement=placement, over="data")
    assert found.seconds == expected

    # The command of tune, and a price at the same size.
    rows = run_json("tune", kind, *where, "--over", "data", "--sizes", str(num_bytes))["windows"][0]["rows"]
    assert rows[0]["seconds"] == expected
    if (
        tuned.request.system.runtime == "hemiola"
    ):  # tables of GPU plans have jumps that a price does not know yet
        assert hemiola.price(tuned)(num_bytes) == pytest.approx(chosen.seconds, rel=0.02)

    # What place replays of a job whose only traffic is this request.
    traffic = Traffic((TrafficRequest(CollectiveKind(kind), ("data",), num_bytes, name="it"),))
    placed = hemiola.place(system, axes, traffic)
    assert placed.replayed is not None
    again = hemiola.tune(kind, system, [num_bytes], placement=placed, over="data")
    first = placed.replayed.requests[0]
    assert first.plan is not None
    if (placed.device_grid() == placed.first_grid()).all():
        assert first.seconds == pytest.approx(again.sizes[0].chosen.seconds, rel=EXACT)

    # What synthesize replays is what the same plan takes anywhere.
    if kind != "alltoall":
        request = find_request(CollectiveKind(kind), system, axes=axes, placement=placement, over="data")
        best = synthesize(request, num_bytes, top=2).programs[0]
        assert best.source is TimeSource.REPLAYED
        assert best.replayed is not None
        assert best.seconds == pytest.approx(
            replay_seconds(best.replayed.plan, num_bytes, request), rel=EXACT
        )
        assert chosen.seconds <= best.seconds * (1 + 2e-3)


def test_the_command_and_the_function_synthesize_the_same() -> None:
    said = run_json(
        "synthesize", "--system", "dgx-a100:2", "--axes", "data=16", "--reduce", "data", "--bytes", "16MiB"
    )
    found = hemiola.synthesize("dgx-a100:2", "16MiB", axes="data=16", over="data")
    assert [row["seconds"] for row in said["programs"]] == pytest.approx(
        [one.seconds for one in found.programs], rel=EXACT
    )
    assert json.loads(json.dumps(found.to_json()))["programs"][0]["source"] == "replayed"


def test_a_message_size_travels_with_its_plan(tmp_path: Path) -> None:
    tuned = hemiola.tune("allreduce", plain_system("dgx-a100:2"), [1 << 26])
    plan = tuned.plan(1 << 26)
    assert plan.message_bytes > 0
    write_native(plan, tmp_path / "tuned.plan")
    again: Plan = hemiola.read_plan(tmp_path / "tuned.plan")
    assert again.message_bytes == plan.message_bytes
