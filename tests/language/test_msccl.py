"""MSCCLang scripts run unchanged; what is wrong in them is refused with its line and the reason."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

import pytest

from hemiola.compiler.compile import compile_program
from hemiola.compiler.options import CompileOptions
from hemiola.errors import (
    ChunkIndexError,
    CollectiveError,
    CountError,
    DoubleCountError,
    GroupError,
    HemiolaError,
    PostconditionError,
    ProgramError,
    ScriptError,
    StaleReferenceError,
    ThreadblockError,
    UninitializedChunkError,
)
from hemiola.ir.chunk_dag import AUTOMATIC
from hemiola.ir.plan import Protocol
from hemiola.ir.verify import verify
from hemiola.language.msccl import MscclScript, run_script
from hemiola.language.msccl.modules import OFFERED

SCRIPTS = Path(__file__).parent / "msccl_scripts"

GOOD: dict[str, tuple[list[str], list[tuple[str, bool]]]] = {
    "allgather_allpairs_in_place": ([], [("allgather", True)]),
    "allgather_doubling": ([], [("allgather", True)]),
    "allreduce_allpairs": (["4", "2"], [("allreduce", True)]),
    "allreduce_halving_doubling": ([], [("allreduce", True)] * 2),
    "allreduce_hierarchical": ([], [("allreduce", True)]),
    "allreduce_out_of_place": ([], [("allreduce", False)]),
    "allreduce_ring": (["5", "2", "--channels", "2", "--protocol=LL"], [("allreduce", True)]),
    "allreduce_routines": ([], [("allreduce", True), ("allgather", True)]),
    "allreduce_tree_older_form": (["3"], [("allreduce", True)]),
    "alltoall_three_step": ([], [("alltoall", False)]),
    "alltoall_two_step": (["3", "2"], [("alltoall", False)]),
    "alltonext_custom": (["3", "2"], [("custom", False)]),
    "broadcast_custom": ([], [("custom", True)]),
    "gather_custom_window": ([], [("custom", True)] * 2),
    "nvlink_listing": ([], [("alltoall", False)]),
    "reduce_custom": ([], [("custom", True)]),
    "reducescatter": ([], [("reducescatter", True), ("reducescatter", False)]),
    "reducescatter_delivered": ([], [("reducescatter", True)]),
}
"""Script: its arguments, and the collectives of the programs it asks for."""

IMPORTED_BY_OTHERS = {"ring_steps"}


def run_good(name: str) -> MscclScript:
    return run_script(SCRIPTS / f"{name}.py", GOOD[name][0])


def test_every_script_is_listed() -> None:
    assert {path.stem for path in SCRIPTS.glob("*.py")} == set(GOOD) | IMPORTED_BY_OTHERS


@pytest.mark.parametrize("name", GOOD)
def test_a_script_gives_programs_that_keep_their_promises(name: str) -> None:
    programs = [recorded.program for recorded in run_good(name).programs]
    assert [(p.collective.kind, p.collective.in_place) for p in programs] == GOOD[name][1]
    for program in programs:
        dag = program.finish(check=True)
        assert len(dag.operations) > 0
        assert len(dag.collective.meaning().promised) > 0
        assert all(re.search(r"msccl_scripts/\w+\.py:\d+$", line) for line in dag.lines)


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("name", GOOD)
def test_a_script_compiles_and_verifies(name: str, slots: int) -> None:
    for recorded in run_good(name).programs:
        options = CompileOptions(slots=slots, disabled=recorded.disabled_passes)
        compiled = compile_program(recorded.program, options)
        assert verify(compiled.plan, slots=slots).ok
        assert compiled.report.fused == 0 or not recorded.disabled_passes


def test_threadblocks_that_no_runtime_can_run_are_refused() -> None:
    by_hand = f"{EXCHANGE}, 1, threadblock_policy=ThreadblockPolicy.manual"
    body = "for a, b in ((0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)): c(a, I, b).copy(b, O, a, sendtb=0, recvtb=1)"
    own = "for a in (0, 1, 2): c(a, I, a).copy(a, O, a)"
    text = (PRELUDE % (by_hand, f"{body}\n    {own}")).replace("fully_connected(2)", "fully_connected(3)")
    program = run_text(text).programs[0].program
    with pytest.raises(
        ThreadblockError, match=rf"script\.py:{BODY_LINE}: threadblock 0 of rank 0 would have two"
    ):
        compile_program(program)


def test_lines_are_those_of_the_script_also_through_routines_and_imports() -> None:
    source = (SCRIPTS / "allreduce_routines.py").read_text("utf-8").splitlines()
    first, second = run_good("allreduce_routines").programs
    said = [source[int(line.rpartition(":")[2]) - 1].strip() for line in first.program.lines]
    assert said[0] == "allreduce_ring_inplace(4, node, 0)"
    assert said[-1] == "c = c.copy(r, Buffer.output, index)"
    assert len(second.program.lines) == 1
    (hierarchical,) = run_good("allreduce_hierarchical").programs
    assert {Path(line).name.partition(":")[0] for line in hierarchical.program.lines} == {"ring_steps.py"}


def test_threadblocks_count_only_when_they_are_placed_by_hand() -> None:
    (manual,) = run_good("allreduce_allpairs").programs
    rows = manual.program.finish().operations
    assert set(rows["send_threadblock"].tolist()) == {0, 1, 2, 3}
    local = rows[rows["src_rank"] == rows["dst_rank"]]
    assert (local["send_threadblock"] == local["recv_threadblock"]).all()
    automatic = record("c(0, I, 0).copy(1, O, 0, sendtb=3, recvtb=4, ch=5); c(1, I, 0).copy(0, O, 0)", NEXT)
    rows = automatic.programs[0].program.finish().operations
    assert set(rows["send_threadblock"].tolist()) == set(rows["recv_threadblock"].tolist()) == {AUTOMATIC}
    assert rows["channel"].tolist() == [5, AUTOMATIC]


def test_arguments_of_the_program_are_passed_on() -> None:
    (ring,) = run_good("allreduce_ring").programs
    assert (ring.program.name, ring.program.instances, ring.program.protocol) == ("ring_2", 2, Protocol.LL)
    assert (ring.disabled_passes, ring.notes) == (frozenset(), ())
    plain, fused = run_good("allreduce_halving_doubling").programs
    assert (plain.disabled_passes, fused.disabled_passes) == (frozenset({"fuse"}), frozenset())
    assert "replication" in run_good("allreduce_allpairs").programs[0].notes[0]
    assert "in place" in run_good("alltonext_custom").programs[0].notes[0]


def test_a_custom_collective_promises_what_its_check_looked_at() -> None:
    custom = run_good("reduce_custom").programs[0].program.collective.custom
    assert custom is not None
    assert custom.promises == ((2, 0, ((0, 0), (1, 0), (2, 0))),)
    even = run_good("gather_custom_window").programs[1].program.collective.custom
    assert even is not None
    assert {rank for rank, _, _ in even.promises} == {0, 2}


def test_what_a_script_prints_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    run_good("allreduce_ring")
    out, err = capsys.readouterr()
    assert (out, err) == ("", "this line is the script's own\n")


@pytest.mark.parametrize("body", ["pass", "raise KeyError('x')"])
def test_the_process_is_as_before_afterwards(body: str, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("from msccl.language import *\n")
    script = tmp_path / "s.py"
    script.write_text(f"import beside, sys\nsys.path.append('x')\nassert sys.argv[1:] == ['a']\n{body}\n")
    before = (sys.argv, list(sys.path), set(sys.modules))
    with pytest.raises(ScriptError):
        run_script(script, ["a"])
    assert (sys.argv, list(sys.path), set(sys.modules)) == before
    with pytest.raises(ModuleNotFoundError):
        __import__("msccl.language")


def test_every_offered_module_can_be_imported_in_each_way() -> None:
    ways = [f"import {name}\nimport {name} as m\nfrom {name} import *\n" for name in OFFERED]
    moves = "c(0, I, 0).copy(1, O, 0); c(1, I, 0).copy(0, O, 0)"
    assert run_text("".join(ways) + PRELUDE % (f"{NEXT}, 1", moves)).programs


PRELUDE = """\
from msccl.language import *
from msccl.language.collectives import *
from msccl.topologies import *
I, O, c = Buffer.input, Buffer.output, chunk
class Next(Collective):
    def init_buffers(self): return [{I: [Chunk(r, 0)], O: [None]} for r in range(self.num_ranks)]
    def check(self, prog): return all(prog.buffers[r][O][0] == Chunk(1 - r, 0) for r in (0, 1))
with MSCCLProgram("p", fully_connected(2), %s):
    %s
"""
BODY_LINE = PRELUDE.count("\n")
NEXT = "Next(2, 1, False)"
SUM = "AllReduce(2, 3, True)"
EXCHANGE = "AllToAll(3, 1, False)"


def record(body: str, collective: str = SUM) -> MscclScript:
    return run_text(PRELUDE % (f"{collective}, 1", body))


def run_text(text: str, *args: str) -> MscclScript:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.py"
        script.write_text(text)
        return run_script(script, args)


WRONG_PROGRAMS = [
    ("a = c(0,I,0); c(1,I,0).copy(0); a.copy(1)", SUM, StaleReferenceError,
     r"input\[0\] of rank 0 was overwritten"),
    ("c(0, 's', 0)", SUM, UninitializedChunkError, r"s\[0\] of rank 0 is read, but nothing has been written"),
    ("c(0, O, 0)", NEXT, UninitializedChunkError, r"output\[0\] of rank 0 is read"),
    ("c(0, I, 3)", SUM, ChunkIndexError, r"input\[3\] of rank 0 is outside its buffer: .* chunks 0 to 2"),
    ("c(0, I, 2, 2)", SUM, ChunkIndexError, r"input\[2\] of rank 0 with size 2 is outside"),
    ("c(0, I, -1)", SUM, ChunkIndexError, r"input\[-1\] of rank 0 is outside its buffer"),
    ("c(2, I, 0)", SUM, ChunkIndexError, r"rank 2 does not exist: the program has ranks 0 to 1"),
    ("c(0, I, 0).copy(7)", SUM, ChunkIndexError, r"rank 7 does not exist"),
    ("c(0, I, 0).copy(1, O)", SUM, ChunkIndexError, r"a copy to output of rank 1 needs an index"),
    ("c(0, I, 1)", "AllGather(2, 1, True)", ChunkIndexError, r"input\[1\] of rank 0 is outside its buffer"),
    ("c(0,I,0).reduce(c(1,I,0)).reduce(c(1,I,0))", SUM, DoubleCountError, r"rank 1 \(input\[0\]\) is in both"),
    ("c(0, I, 0, 2).reduce(c(1, I, 0))", SUM, CountError, r"has 2 chunks, but .* has 1"),
    ("c(0, I, 0).group(c(0, I, 2))", SUM, GroupError, r"chunks 1 to 1 between them belong to neither"),
    ("c(0, I, 0, 3).split(2)", SUM, GroupError, r"3 chunks, which cannot be split into 2"),
    ("c(0, I, 0).reduce(c(1, I, 0)); Check()", SUM, PostconditionError, r"p leaves .* in input"),
    ("c(0, I, 0).copy(1, O, 0); Check()", NEXT, PostconditionError, r"the check of Next gives False"),
    ("c(0,I,0).reduce(c(1,I,0)).get_dst_index()", SUM, ProgramError, r"which has no one origin"),
    ("c(0, I, 0.5)", SUM, ScriptError, r"TypeError: 'float' object cannot be interpreted as an integer"),
    ("c(0, I)", SUM, ScriptError, r"TypeError: chunk\(\) missing 1 required positional argument: 'index'"),
    ("assert 1 == 2", SUM, ScriptError, r"the script's own assertion fails: assert 1 == 2"),
    ("assert False, 'no'", SUM, ScriptError, r"AssertionError: no"),
    ("sys.exit(1)", SUM, ScriptError, r"the script ends with exit code 1"),
    ("sys.exit('bad input')", SUM, ScriptError, r"the script ends with: bad input"),
    ("import msccl.autosynth", SUM, ScriptError, r"No module named 'msccl.autosynth'; of msccl, only"),
    ("from msccl.topologies import dgx9", SUM, ScriptError, r"cannot import name 'dgx9'"),
    ("undefined", SUM, ScriptError, r"NameError: name 'undefined' is not defined"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "collective", "kind", "message"), WRONG_PROGRAMS)
def test_a_wrong_program_is_refused_at_its_line(
    body: str, collective: str, kind: type[HemiolaError], message: str
) -> None:
    with pytest.raises(kind, match=rf"script\.py:{BODY_LINE}: .*{message}"):
        record(body, collective)


WITH_LINE = BODY_LINE - 1
WRONG_AT_WITH = [
    ("XML()", f"{SUM}, 1", PostconditionError, r"p leaves input\[0\] of rank 0 in input\[0\] of rank 0"),
    ("pass", f"{NEXT}, 1", PostconditionError, r"the check of Next gives False"),
    ("pass", "Collective(2, 1, True), 1", CollectiveError, r"init_buffers of Collective must give a list"),
    (
        "pass",
        "AllReduce(3, 3, True), 1",
        ProgramError,
        r"the topology has 2 nodes, but the collective 3 ranks",
    ),
    ("pass", "AllReduce(2, 0, True), 1", CollectiveError, r"needs at least one chunk"),
    ("pass", "AllReduce(2, 2, True), 1, 'Fast'", ProgramError, r"'Fast'"),
    ("pass", "AllReduce(2, 2, True), 0", ProgramError, r"instances is between 1"),
]


@pytest.mark.parametrize(("body", "arguments", "kind", "message"), WRONG_AT_WITH)
def test_a_wrong_whole_is_refused_at_the_with_line(
    body: str, arguments: str, kind: type[HemiolaError], message: str
) -> None:
    with pytest.raises(kind, match=rf"script\.py:{WITH_LINE}: .*{message}"):
        run_text(PRELUDE % (arguments, body))


def own_collective(rows: str, check: str, body: str) -> str:
    return (
        "from msccl.language import *\nfrom msccl.language.collectives import Collective\n"
        "from msccl.topologies import *\nI, O = Buffer.input, Buffer.output\n"
        f"class Own(Collective):\n    def init_buffers(self): return {rows}\n"
        f"    def check(self, prog): {check}\n"
        f"with MSCCLProgram('own', fully_connected(2), Own(2, 1, False), 1):\n    {body}\n"
    )


ROWS = "[{I: [Chunk(r, 0) if r == 0 else None], O: [None]} for r in (0, 1)]"
MOVE = "chunk(0, I, 0).copy(1, O, 0)"
WRONG_COLLECTIVES = [
    (ROWS, "return True", "chunk(1, I, 0)", UninitializedChunkError, "puts no chunk there"),
    (ROWS, "return True", MOVE, PostconditionError, "nothing in the output chunks that its check looks at"),
    (ROWS, "print('no luck'); return False", MOVE, PostconditionError, "gives False: no luck"),
    (ROWS, "prog.buffers[0][O][1]", MOVE, ScriptError, "IndexError"),
    (ROWS, "prog.buffers[1][I][0]; prog.buffers[1][O][0]", MOVE + ".copy(1, I, 0)", PostconditionError,
     r"looks at input\[0\] of rank 1, where the program leaves something new"),
    ("[{I: [1], O: []}] * 2", "pass", MOVE, CollectiveError, "must hold only Chunk and None, but holds 1"),
    ("[{O: []}] * 2", "pass", MOVE, CollectiveError, "gives rank 0 no Buffer.input"),
    ("[{I: [], O: [Chunk(0, 0)]}] * 2", "pass", MOVE, CollectiveError, r"puts a chunk in output\[0\] of rank 0"),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "check", "body", "kind", "message"), WRONG_COLLECTIVES)
def test_a_wrong_collective_is_refused(
    rows: str, check: str, body: str, kind: type[HemiolaError], message: str
) -> None:
    with pytest.raises(kind, match=rf"script\.py:\d+: .*{message}"):
        run_text(own_collective(rows, check, body))


def test_a_collective_without_a_check_promises_all_that_its_outputs_hold() -> None:
    text = own_collective(ROWS, "...", MOVE).replace("    def check(self, prog): ...\n", "")
    custom = run_text(text).programs[0].program.collective.custom
    assert custom is not None
    assert custom.promises == ((1, 0, ((0, 0),)),)


def test_an_older_check_may_leave_out_the_rank_of_a_sum() -> None:
    check = "return prog.buffers[1][O][0] == ReduceChunk([]).reduce(Chunk(0, 0)).reduce(-1, Chunk(1, 0))"
    rows = "[{I: [Chunk(r, 0)], O: [None]} for r in (0, 1)]"
    body = "c = chunk(0, I, 0).copy(1, O, 0).reduce(chunk(1, I, 0))"
    (recorded,) = run_text(own_collective(rows, check, body)).programs
    assert recorded.program.contributions(1, "output", 0) == [(0, 0), (1, 0)]


def test_a_send_over_a_link_that_the_topology_lacks_is_refused() -> None:
    text = (PRELUDE % ("AllReduce(3, 1, True), 1", "c(0, I, 0).copy(2)")).replace(
        "fully_connected(2)", "line(3)"
    )
    with pytest.raises(
        ProgramError, match=rf":{BODY_LINE}: rank 0 sends to rank 2, but Line\(n=3\) has no link"
    ):
        run_text(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(:\n", r"script\.py:1: .*not valid Python"),
        ("print('nothing here')\n", r"script\.py: the script ends without a program"),
        ("import sys\nsys.exit(0)\n", r"script\.py: the script ends without a program"),
        ("from msccl.language import *\nXML()\n", r"script\.py:2: no program is being recorded here"),
        ("import nowhere_to_be_found\n", r"script\.py:1: .*No module named 'nowhere_to_be_found'"),
    ],
)
def test_a_script_without_a_program_is_refused(text: str, message: str) -> None:
    with pytest.raises(HemiolaError, match=message):
        run_text(text)


def test_missing_arguments_and_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match=r"allreduce_ring\.py:\d+: the script ends with exit code 2"):
        run_script(SCRIPTS / "allreduce_ring.py", ["4"])
    with pytest.raises(ScriptError, match="there is no such file"):
        run_script(tmp_path / "none.py")
