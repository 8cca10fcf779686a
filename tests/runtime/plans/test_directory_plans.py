"""Plans from the files of a folder: what fits is used, what is wrong is named and never used."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hemiola.algorithms.library import ALGORITHMS
from hemiola.collectives import AllReduce, CollectiveKind, Custom
from hemiola.compiler.compile import compile_program
from hemiola.errors import FormatError, RunError
from hemiola.ir.formats import write_plan
from hemiola.ir.opcodes import Opcode
from hemiola.ir.plan import Plan
from hemiola.ir.targets import PLAN, RCCL_XML, Target
from hemiola.ir.verify import verify
from hemiola.language.program import Program
from hemiola.runtime.plans.directory_plans import VARIABLE, DirectoryPlans, with_own_plans
from hemiola.runtime.plans.plan_source import PlanRequest, plan_digest
from hemiola.tuning.library_plans import LibraryPlans
from subjects import FILES


@pytest.fixture(autouse=True)
def _warnings_are_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def built(name: str, **parameters: Any) -> Plan:
    return compile_program(ALGORITHMS[name].build(**parameters)).plan


def put(folder: Path, name: str, plan: Plan, target: Target = PLAN) -> Path:
    write_plan(plan, folder / name, target)
    return folder / name


def request(kind: str = "allreduce", num_ranks: int = 4, num_bytes: int = 4096, **more: Any) -> PlanRequest:
    return PlanRequest(
        CollectiveKind(kind), num_ranks, (0,) * num_ranks, num_bytes, **{"in_place": False, **more}
    )


def refusals(plans: DirectoryPlans, asked: PlanRequest) -> dict[str, str]:
    explanation = plans.explain(asked)
    assert len({other.name for other in explanation.others}) == len(explanation.others)
    return {other.name: other.reason for other in explanation.others}


def broken(plan: Plan) -> Plan:
    """The plan with a step that does nothing, which no longer keeps its promise."""
    steps = plan.steps.copy()
    steps["opcode"][steps["opcode"] == Opcode.CPY] = Opcode.NOP
    assert not verify(replace(plan, steps=steps)).ok
    return replace(plan, steps=steps)


def test_the_first_file_that_fits_is_used(tmp_path: Path) -> None:
    put(tmp_path, "b_ring.plan", built("allreduce_ring", ranks=4))
    put(tmp_path, "a_pairs.xml", built("allreduce_allpairs", ranks=4), RCCL_XML)
    put(tmp_path, "c_gather.plan", built("allgather_ring", ranks=4))
    put(tmp_path, "d_eight.plan", built("allreduce_ring", ranks=8))
    (tmp_path / "notes.txt").write_text("not asked")
    plans = DirectoryPlans(tmp_path)
    choice = plans.choose(request())
    assert choice.plan.name == "allreduce_allpairs"
    assert choice.digest == plan_digest(choice.plan)
    assert choice.reason == f"a_pairs.xml is the first file of {tmp_path} that fits"
    assert plans.explain(request()).chosen == choice
    assert refusals(plans, request()) == {
        "b_ring.plan": "it fits too, but another comes first by name",
        "c_gather.plan": "it is a plan for allgather",
        "d_eight.plan": "it is for 8 ranks, and there are 4",
    }
    assert plans.choose(request(num_ranks=8)).plan.num_ranks == 8
    assert plans.choose(request("allgather")).plan.name == "allgather_ring"


def test_a_choice_is_remembered(tmp_path: Path) -> None:
    put(tmp_path, "ring.plan", built("allreduce_ring", ranks=4))
    plans = DirectoryPlans(tmp_path)
    assert plans.choose(request()) is plans.choose(request())
    assert plans.choose(request()).plan is plans.choose(request(num_bytes=1)).plan


@pytest.mark.parametrize(
    ("plan", "asked", "reason"),
    [
        (built("allreduce_ring", ranks=4), {"in_place": True}, "it is for calls out of place"),
        (built("allreduce_ring", ranks=4, in_place=True), {}, "it is for calls in place"),
        (built("broadcast_tree", ranks=4, root=2), {"kind": "broadcast", "root": 1}, "it is for root 2, and the root is 1"),
        (
            built("sendrecv", ranks=4, source=0, destination=3),
            {"kind": "sendrecv", "peer": 2},
            "it is for destination 3, and the destination is 2",
        ),
        (
            replace(built("allreduce_ring", ranks=4), min_bytes=8192),
            {},
            "it is for 8KiB and more, and there are 4KiB",
        ),
        (replace(built("allreduce_ring", ranks=4), max_bytes=4095), {}, "it is for up to 4095B, and there are 4KiB"),
        (
            built("alltoall_two_step", ranks=4, levels=(2, 2)),
            {"kind": "alltoall", "uneven": True},
            "it moves shares through places of other lengths, and they differ in length",
        ),
    ],
)  # fmt: skip
def test_a_right_plan_for_another_call_is_not_used(
    tmp_path: Path, plan: Plan, asked: dict[str, Any], reason: str
) -> None:
    put(tmp_path, "one.plan", plan)
    plans = DirectoryPlans(tmp_path)
    assert refusals(plans, request(**asked)) == {"one.plan": reason}
    with pytest.raises(RunError, match=r"no plan for .* \(one\.plan: .*\); give one with plans="):
        plans.choose(request(**asked))


@pytest.mark.parametrize("in_place", [False, True])
def test_a_plan_for_both_places_serves_both(tmp_path: Path, in_place: bool) -> None:
    program = Program("forth", AllReduce(1))
    both = replace(compile_program(program_for_one(program)).plan, both_places=True)
    put(tmp_path, "both.plan", both)
    choice = DirectoryPlans(tmp_path).choose(request(num_ranks=1, in_place=in_place))
    assert choice.plan.collective.in_place == in_place
    assert not choice.plan.both_places
    assert verify(choice.plan).ok


def program_for_one(program: Program) -> Program:
    program.chunk(0, "input", 0).copy(0, "output", 0)
    return program


def test_sizes_are_those_of_the_larger_buffer(tmp_path: Path) -> None:
    """As MSCCL's files and nccl-tests count: an all-gather of four ranks is as large as its output."""
    put(tmp_path, "one.plan", replace(built("allgather_ring", ranks=4), min_bytes=4096, max_bytes=8192))
    put(tmp_path, "two.plan", replace(built("reducescatter_ring", ranks=4), min_bytes=4096, max_bytes=8192))
    plans = DirectoryPlans(tmp_path)
    for kind in ("allgather", "reducescatter"):
        for fits in (4096, 8192):
            assert plans.choose(request(kind, num_bytes=fits)).plan.collective.kind == kind
        for misses in (4095, 8193):
            with pytest.raises(RunError, match="no plan"):
                plans.choose(request(kind, num_bytes=misses))


def test_the_same_bits_are_asked_of_the_plan_itself(tmp_path: Path) -> None:
    program = Program("each_its_own_way", AllReduce(3))
    for rank in range(3):
        total = program.chunk(rank, "input", 0).copy(rank, "output", 0)
        for hop in (1, 2):
            total = total.reduce(program.chunk((rank + hop) % 3, "input", 0))
    put(tmp_path, "a.plan", compile_program(program).plan)
    put(tmp_path, "b.plan", built("allreduce_ring", ranks=3))
    plans = DirectoryPlans(tmp_path)
    assert plans.choose(request(num_ranks=3)).plan.name == "each_its_own_way"
    asked = request(num_ranks=3, same_expression=True)
    assert plans.choose(asked).plan.name == "allreduce_ring"
    assert refusals(plans, asked) == {
        "a.plan": "its ranks do not all add up in the same order, and the same bits are asked for"
    }


def fill_with_wrong_files(folder: Path) -> dict[str, str]:
    """A file of each kind that must never be used, with what its sentence says."""
    good = put(folder, "cut.plan", built("allreduce_ring", ranks=4)).read_bytes()
    (folder / "cut.plan").write_bytes(good[: len(good) // 2])
    (folder / "flipped.plan").write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    (folder / "empty.plan").write_bytes(b"")
    (folder / "text.xml").write_text("<algo name='a'")
    (folder / "bomb.xml").write_text('<!DOCTYPE a [<!ENTITY b "bbbb">]><algo name="&b;"/>')
    (folder / "folder.plan").mkdir()
    os.mkfifo(folder / "pipe.xml")
    (folder / "nowhere.plan").symlink_to(folder / "missing")
    put(folder, "wrong.plan", broken(built("allgather_ring", ranks=4)))
    unknown = Custom(input_chunks=[4] * 4, output_chunks=[4] * 4, promises={})
    put(folder, "custom.plan", replace(built("allreduce_ring", ranks=4), collective=unknown))
    return {
        "cut.plan": "damaged",
        "flipped.plan": "damaged",
        "empty.plan": "neither a native plan file nor MSCCL XML",
        "text.xml": "line 1: this is no well-formed XML",
        "bomb.xml": "line 1: a document type was found",
        "folder.plan": "no plain file",
        "pipe.xml": "no plain file",
        "nowhere.plan": "cannot be read",
        "wrong.plan": "it is not correct (postcondition): output[0] of rank 0",
        "custom.plan": "what it computes is not known",
    }


def test_wrong_files_are_named_and_do_not_stop_the_job(tmp_path: Path) -> None:
    expected = fill_with_wrong_files(tmp_path)
    put(tmp_path, "zz_good.plan", built("allreduce_ring", ranks=4))
    plans = DirectoryPlans(tmp_path)
    assert plans.choose(request()).reason.startswith("zz_good.plan is the first")
    found = refusals(plans, request())
    assert found.keys() == expected.keys()
    for name, part in expected.items():
        assert part in found[name], name
        assert "\n" not in found[name]
        assert not found[name].startswith(str(tmp_path))


def test_a_folder_of_wrong_files_warns(tmp_path: Path) -> None:
    expected = fill_with_wrong_files(tmp_path)
    with pytest.warns(
        UserWarning, match=rf"no plan of the folder .* all {len(expected)} of its files are wrong"
    ):
        plans = DirectoryPlans(tmp_path)
    with pytest.raises(RunError, match="no plan for allreduce"):
        plans.choose(request())


def test_an_empty_folder_warns(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"it has no file \*\.plan or \*\.xml"):
        DirectoryPlans(tmp_path)


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=rf"nothing: a folder .*No such file.*set {VARIABLE}"):
        DirectoryPlans(tmp_path / "nothing")
    (tmp_path / "file").touch()
    with pytest.raises(FormatError, match="file: a folder of plan files was expected"):
        DirectoryPlans(tmp_path / "file")


def test_a_plan_that_needs_more_slots_than_there_are_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "ring.plan", built("allreduce_ring", ranks=4))
    with pytest.warns(
        UserWarning, match=r"it is not correct \(deadlock\): with 0 slots.* hemiola verify --slots 0"
    ):
        DirectoryPlans(tmp_path, slots=0)


def test_the_users_own_plans_come_before_the_library(tmp_path: Path) -> None:
    library = LibraryPlans()
    assert with_own_plans(library, {}) is library
    put(tmp_path, "ring.plan", replace(built("allreduce_ring", ranks=4), name="mine"))
    plans = with_own_plans(library, {VARIABLE: str(tmp_path)})
    assert plans.choose(request()).plan.name == "mine"
    assert plans.choose(request("allgather")) is library.choose(request("allgather"))
    names = [other.name for other in plans.explain(request()).others]
    assert sorted(names) == sorted(name for name in ALGORITHMS if ALGORITHMS[name].kind == "allreduce")


@pytest.mark.skipif(not FILES.is_dir(), reason="the files of real runtimes are not here")
def test_the_files_of_real_runtimes_are_all_used() -> None:
    plans = DirectoryPlans(FILES)
    sizes = [1 << exponent for exponent in range(27)]
    used = set()
    for kind in ("allreduce", "allgather", "alltoall"):
        for num_ranks in (4, 8):
            for num_bytes in sizes:
                for in_place in (False, True):
                    chosen = plans.explain(request(kind, num_ranks, num_bytes, in_place=in_place)).chosen
                    if chosen is not None:
                        used.add(chosen.reason.split()[0])
    assert used == {path.name for path in FILES.glob("*.xml")}
