"""hemiola compile: sources, options, what is written, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.invoke import answer, invoke, refusal, succeed
from hemiola.algorithms.library import build
from hemiola.compiler.compile import compile_program
from hemiola.ir.formats import read_plan, write_plan
from hemiola.ir.plan import Plan, Protocol
from hemiola.ir.targets import TARGETS, Target

RING = """
from hemiola import AllReduce, Program, program

@program
def ring(*, ranks: int = 4, in_place: bool = True, instances: int = 1) -> Program:
    print("recording")
    p = Program("ring", AllReduce(ranks, chunks=ranks, in_place=in_place), instances=instances)
    for first in range(ranks):
        c = p.chunk(first, "input", first).copy(first, "output", first)
        for hop in range(1, ranks):
            rank = (first + hop) % ranks
            c = p.chunk(rank, "input", first).copy(rank, "output", first).reduce(c)
        for hop in range(ranks, 2 * ranks - 1):
            c = c.copy((first + hop) % ranks)
    return p
"""
SEND = """
from hemiola import Program, SendRecv, program

@program
def forth(*, ranks: int = 2) -> Program:
    p = Program("forth", SendRecv(ranks))
    p.chunk(0).copy(1, "output", 0)
    return p

@program
def back(*, ranks: int = 2) -> Program:
    p = Program("back", SendRecv(ranks, source=1, destination=0))
    p.chunk(1).copy(0, "output", 0)
    return p
"""
MSCCL = """
from sys import argv
from msccl.language import *
from msccl.topologies import *
from msccl.language.collectives import AllGather

size = int(argv[1])
with MSCCLProgram("gather", fully_connected(size), AllGather(size, 1, True), 1, instr_fusion=False):
    for rank in range(size):
        for other in range(size):
            if rank != other:
                chunk(rank, Buffer.input, 0).copy(other, Buffer.output, rank)
    XML()
"""


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    path = tmp_path / "ring.py"
    path.write_text(RING)
    return path


@pytest.fixture
def several(tmp_path: Path) -> Path:
    path = tmp_path / "several.py"
    path.write_text(SEND)
    return path


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "gather_msccl.py"
    path.write_text(MSCCL)
    return path


@pytest.mark.parametrize("target", TARGETS)
def test_a_library_algorithm_becomes_a_file_that_verifies(tmp_path: Path, target: str) -> None:
    out = tmp_path / "out"
    words = ["allreduce_hierarchical", "-o", out, "--target", target, "--", "--levels=2,4", "--instances=2"]
    (made,) = answer("compile", *words)["plans"]
    assert (made["file"], made["target"], made["num_ranks"]) == (str(out), target, 8)
    assert made["verdict"]["ok"]
    proven = answer("verify", out, "--slots", 2, "--target", target)
    assert proven["ok"]
    assert proven["num_steps"] >= made["num_steps"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_parameters_may_stand_before_the_dashes() -> None:
    after = answer("compile", "allreduce_hierarchical", "--", "--ranks=8", "--levels", "4,2", "--instances=3")
    before = answer("compile", "allreduce_hierarchical", "--ranks", 8, "--levels", "4,2", "--instances", 3)
    for one in (after, before):
        for record in one["plans"][0]["passes"]:
            del record["seconds"]
    assert before == after


def test_the_report_says_what_was_made() -> None:
    made = compile_program(build("allreduce_hierarchical", {"levels": "2,4"}))
    (undone,) = made.report.undone.values()
    text = succeed("compile", "allreduce_hierarchical", "--levels", "2,4")
    for part in (
        "allreduce_hierarchical: allreduce of 8 ranks, out of place, protocol Simple",
        f"{made.plan.num_steps} in {len(made.plan.threadblocks)} threadblocks on 1 channel",
        f"{made.report.fused} kept, {undone} undone by order_steps",
        "none with 2 slots per connection, a step taking one slot or one per chunk",
    ):
        assert part in text
    assert all(f"  {record.name}  " in text for record in made.report.passes)
    assert "wrote" not in text
    assert all(line == line.rstrip() and len(line) <= 100 for line in text.splitlines())


def test_the_json_says_the_same() -> None:
    compiled = compile_program(build("allreduce_hierarchical", {"levels": "2,4"}))
    (made,) = answer("compile", "allreduce_hierarchical", "--levels", "2,4")["plans"]
    assert made["undone"] == compiled.report.undone
    assert made["num_fused"] == compiled.report.fused
    assert made["num_steps"] == compiled.plan.num_steps
    assert made["num_threadblocks"] == len(compiled.plan.threadblocks)
    assert [record["name"] for record in made["passes"]] == [record.name for record in compiled.report.passes]
    assert made["file"] is None
    assert made["verdict"]["slots"] == 2


@pytest.mark.parametrize("slots", [0, 1, 2, 7])
def test_a_plan_holds_with_the_slots_it_was_asked_for(tmp_path: Path, slots: int) -> None:
    out = tmp_path / "a.plan"
    succeed("compile", "allreduce_allpairs", "-o", out, "--slots", slots, "--ranks", 5)
    assert answer("verify", out, "--slots", slots)["ok"]


def test_passes_are_left_out() -> None:
    (made,) = answer(
        "compile", "allreduce_ring", "--ranks", 4, "--disable", "fuse", "--disable", "order_steps"
    )["plans"]
    assert made["num_fused"] == 0
    assert [record["name"] for record in made["passes"] if record["disabled"]] == ["fuse", "order_steps"]


def test_sizes_and_protocol_go_into_the_file(tmp_path: Path) -> None:
    out = tmp_path / "a.xml"
    options = ["--min-bytes", "1KiB", "--max-bytes", "1MiB", "--protocol", "ll128", "--target", "rccl-xml"]
    succeed("compile", "allreduce_ring", "-o", out, *options, "--ranks", 4)
    plan = read_plan(out)
    assert (plan.min_bytes, plan.max_bytes, plan.protocol) == (1 << 10, 1 << 20, Protocol.LL128)


def test_a_script_of_ones_own(ring: Path, tmp_path: Path) -> None:
    out = tmp_path / "ring.plan"
    result = invoke("compile", ring, "-o", out, "--", "--ranks=6", "--in-place=no")
    assert (result.exit_code, result.stderr) == (0, "recording\n")
    assert f"wrote {out} (plan, " in result.stdout
    plan = read_plan(out)
    assert (plan.name, plan.num_ranks, plan.collective.in_place) == ("ring", 6, False)
    assert plan.line_of(0) == f"{ring}:12"


def test_what_a_script_prints_is_not_in_the_json(ring: Path) -> None:
    result = invoke("compile", ring, "--json")
    assert result.stdout.startswith("{\n")
    assert result.stderr == "recording\n"


def test_one_of_several_programs_is_chosen(several: Path) -> None:
    assert (
        refusal("compile", several)
        == f"{several}: there are several programs: forth, back; choose one with --name"
    )
    assert (
        refusal("compile", several, "--name", "up")
        == f"{several}: there is no program 'up'; there is forth, back"
    )
    assert answer("compile", several, "--name", "back")["plans"][0]["name"] == "back"


def test_an_msccl_script_runs_unchanged(script: Path, tmp_path: Path) -> None:
    out = tmp_path / "gather.xml"
    (made,) = answer("compile", "--msccl", script, "-o", out, "--target", "msccl-xml", "--", "4")["plans"]
    assert (made["name"], made["collective"], made["num_ranks"], made["num_fused"]) == (
        "gather",
        "allgather",
        4,
        0,
    )
    assert [record["name"] for record in made["passes"] if record["disabled"]] == ["fuse"]
    assert answer("verify", out)["ok"]


@pytest.mark.parametrize("target", ["plan", "rccl-xml"])
def test_both_places_of_an_algorithm(tmp_path: Path, target: str) -> None:
    out = tmp_path / "pair.out"
    made = answer("compile", "allgather_ring", "-o", out, "--both-places", "--target", target, "--ranks", 4)[
        "plans"
    ]
    assert [Path(one["file"]).name for one in made] == ["pair.inplace.out", "pair.outofplace.out"]
    assert [read_plan(one["file"]).collective.in_place for one in made] == [True, False]
    assert len(list(tmp_path.iterdir())) == 2


def test_programs_of_one_name_are_all_offered(script: Path, tmp_path: Path) -> None:
    """The same name for another protocol, as scripts that write several files do."""
    body = MSCCL.partition("size = int(argv[1])\n")[2]
    script.write_text(MSCCL + body.replace("instr_fusion=False", 'protocol="LL"'))
    words = ["--msccl", str(script)]
    assert refusal("compile", *words, "--", "3") == (
        f"{script}: there are several programs: gather#1, gather#2; choose one with --name"
    )
    assert "several programs are called 'gather'; choose one of gather#1, gather#2" in refusal(
        "compile", *words, "--name", "gather", "--", "3"
    )
    for name, protocol in (("gather#1", "Simple"), ("gather#2", "LL")):
        (made,) = answer("compile", *words, "--name", name, "--", "3")["plans"]
        assert (made["name"], made["protocol"]) == ("gather", protocol)
    assert "there is no program 'gather#3'" in refusal("compile", *words, "--name", "gather#3", "--", "3")


def test_both_places_of_a_script(ring: Path, tmp_path: Path) -> None:
    assert (
        invoke("compile", ring, "-o", tmp_path / "r.xml", "--target", "msccl-xml", "--both-places").exit_code
        == 0
    )
    assert read_plan(tmp_path / "r.inplace.xml").collective.in_place
    assert not read_plan(tmp_path / "r.outofplace.xml").collective.in_place


def test_who_has_one_form_says_so(several: Path, script: Path) -> None:
    assert refusal("compile", several, "--name", "back", "--both-places") == (
        f"{several}: back has no parameter in_place, so it has one form only; leave --both-places out"
    )
    assert refusal("compile", "--msccl", script, "--both-places", "--", "3") == (
        f"{script}: an MSCCLang script records its collective in one form; leave --both-places out"
    )
    assert refusal("compile", "alltonext_direct", "--both-places", "--ranks", 4) == (
        "alltonext_direct: alltonext has no in-place form, so it has one form only; leave --both-places out"
    )
    assert refusal("compile", "allreduce_ring", "--both-places", "--", "--ranks=4", "--in-place") == (
        "--both-places and --in-place were both given; leave one of them out"
    )


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["allreduce_rign"], "did you mean allreduce_ring"),
        (["missing.py"], "missing.py: there is no such script"),
        (["allreduce_ring"], "allreduce_ring needs ranks; its parameters are --ranks, --instances (1)"),
        (["allreduce_ring", "--", "--ranks=many"], "ranks is a whole number, but is 'many'"),
        (["allreduce_ring", "--", "--colour=red"], "allreduce_ring has no parameter 'colour'"),
        (["allreduce_ring", "--", "red"], "'red' is not a parameter; write --name=value"),
        (["allreduce_ring", "--ranks=4", "--", "--ranks=5"], "--ranks is given twice"),
        (["allreduce_ring", "--in-place"], "There is no option --in-place; parameters of the program come after --"),
        (["allreduce_ring", "--ranks=4", "--name=x"], "--name chooses among the programs of a script"),
        (["allreduce_ring", "--ranks=4", "--disable=polish"], "there is no pass 'polish' to leave out"),
        (["allreduce_ring", "--ranks=4", "--disable=emit"], "emit cannot be left out: it makes the plan"),
        (["allreduce_ring", "--ranks=4", "--slots=-1"], "-1 is not in the range"),
        (["allreduce_ring", "--ranks=4", "--min-bytes=2q"], "expected a size such as 64MiB"),
        (["allreduce_ring", "--ranks=4", "--min-bytes=2", "--max-bytes=1"], "max-bytes 1 is less than min-bytes 2"),
        (["allreduce_ring", "--ranks=200", "--target=rccl-xml"], "rccl-xml cannot hold this plan: rank 0, threadblock 0"),
        (["sendrecv", "--ranks=2", "--target=rccl-xml"], "the collective is sendrecv"),
        (["x.py", "--msccl", "--ranks=2"], "--ranks: an MSCCLang script has arguments of its own"),
    ],
)  # fmt: skip
def test_bad_input_is_one_message(words: list[str], part: str) -> None:
    assert part in refusal("compile", *words)


@pytest.mark.parametrize(
    ("out", "part"),
    [
        (".", "this is a folder"),
        ("no/such/folder/a.plan", "there is no folder"),
        ("/dev/null", "this is no plain file"),
    ],
)
def test_a_place_where_no_file_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str, part: str
) -> None:
    monkeypatch.chdir(tmp_path)
    message = refusal("compile", "allreduce_ring", "--ranks", 4, "-o", out)
    assert message.startswith(f"{out}: ")
    assert part in message


def test_a_file_that_does_not_verify_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_another(plan: Plan, path: Path, target: Target) -> None:
        steps = plan.steps.copy()
        steps["dst_index"][:] = 0
        write_plan(Plan(plan.name, plan.collective, plan.protocol, plan.ranks, plan.threadblocks, steps, plan.dependencies, plan.lines), path, target)  # fmt: skip

    monkeypatch.setattr("hemiola.compiler.deliver.write_plan", write_another)
    out = tmp_path / "a.plan"
    out.write_text("the old one")
    result = invoke("compile", "allgather_ring", "--ranks", 4, "-o", out)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"hemiola: {out}: the file does not hold the plan that was compiled" in result.stderr
    assert [path.read_text() for path in tmp_path.iterdir()] == ["the old one"]


def test_an_error_while_writing_names_the_file_that_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    def fail(plan: Plan, path: Path, target: Target) -> None:
        raise OSError(28, "No space left on device", path)

    monkeypatch.setattr("hemiola.compiler.deliver.write_plan", fail)
    out = tmp_path / "a.plan"
    assert refusal("compile", "allreduce_ring", "--ranks", 4, "-o", out) == (
        f"{out}: cannot be written: No space left on device"
    )
    assert not list(tmp_path.iterdir())


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real.plan")
    succeed("compile", "allreduce_ring", "--ranks", 4, "-o", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert read_plan(tmp_path / "real.plan").name == "allreduce_ring"


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        succeed("compile", "alltoall_two_step", "-o", tmp_path / name, "--levels", "2,3")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert str(Path(__file__).parents[2]).encode() not in (tmp_path / "a").read_bytes()


def test_a_script_of_the_other_kind_is_recognised_before_its_arguments(tmp_path: Path) -> None:
    script = tmp_path / "s.py"
    script.write_text("import sys\n")
    assert "give --msccl for an MSCCLang script" in refusal("compile", script, "--", "4", "2")
