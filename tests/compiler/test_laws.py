"""Every pass keeps the laws of its level and the meaning of the program, and every plan is correct."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunk_programs import chunk_programs
from hemiola.compiler.compile import PASSES, compile_program
from hemiola.compiler.options import CompileOptions
from hemiola.compiler.pipeline import Level
from hemiola.errors import CompileError
from hemiola.ir.chunk_dag import ChunkDag
from hemiola.ir.instruction_dag import InstructionDag
from hemiola.ir.verify import check_chunk_dag, check_instruction_dag, verify
from hemiola.language.program import Program
from reference import judge

REQUIRED = {"lower", "insert_dependencies", "emit"}
OPTIONAL = sorted({one.name for one in PASSES} - REQUIRED)


def check_level(level: Level) -> None:
    if isinstance(level, ChunkDag):
        check_chunk_dag(level)
    elif isinstance(level, InstructionDag):
        check_instruction_dag(level)
    else:
        verdict = verify(level, slots=1_000_000)
        assert verdict.ok, verdict.failures


@settings(max_examples=150, deadline=None)
@given(chunk_programs(), st.sampled_from([0, 1, 2, 3]), st.sets(st.sampled_from(OPTIONAL), max_size=2))
def test_every_pass_keeps_the_laws(program: Program, slots: int, disabled: set[str]) -> None:
    options = CompileOptions(slots=slots, disabled=frozenset(disabled))
    level: Level = program.finish()
    check_level(level)
    for one in PASSES:
        level = (one.skip if one.name in disabled else one.apply)(level, options)
        try:
            check_level(level)
        except Exception as error:
            raise AssertionError(f"after {one.name}") from error


@settings(max_examples=100, deadline=None)
@given(chunk_programs(max_operations=10), st.sampled_from([1, 2]))
def test_every_correct_program_compiles_at_one_slot_and_above(program: Program, slots: int) -> None:
    compiled = compile_program(program, CompileOptions(slots=slots))
    for more in (slots, slots + 1, 8):
        assert verify(compiled.plan, slots=more).ok
    judgement = judge(compiled.plan, slots)
    assert judgement.ok, judgement.reasons


@settings(max_examples=60, deadline=None)
@given(chunk_programs(max_operations=12))
def test_a_plan_for_no_slots_ends_when_a_send_waits_for_its_receiver(program: Program) -> None:
    plan = compile_program(program, CompileOptions(slots=0)).plan
    for slots in (0, 1, 2):
        assert verify(plan, slots=slots).ok


@settings(max_examples=40, deadline=None)
@given(chunk_programs(max_operations=16))
def test_the_same_program_gives_the_same_plan(program: Program) -> None:
    dag = program.finish()
    one, other = compile_program(dag).plan, compile_program(dag).plan
    for table in ("ranks", "threadblocks", "steps", "dependencies"):
        assert getattr(one, table).tobytes() == getattr(other, table).tobytes()


@pytest.mark.parametrize("name", sorted(REQUIRED))
def test_a_pass_that_nothing_can_replace_cannot_be_left_out(name: str) -> None:
    from hemiola.algorithms.library import build

    with pytest.raises(CompileError, match=f"{name} cannot be left out"):
        compile_program(build("allreduce_ring", {"ranks": "2"}), CompileOptions(disabled=frozenset({name})))


def test_a_pass_that_does_not_exist_is_named() -> None:
    from hemiola.algorithms.library import build

    with pytest.raises(
        CompileError, match="no pass 'fusion' to leave out; the passes are replicate_instances, order"
    ):
        compile_program(
            build("allreduce_ring", {"ranks": "2"}), CompileOptions(disabled=frozenset({"fusion"}))
        )
