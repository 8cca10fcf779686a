"""Every algorithm compiles into a plan that is proven for the collective that it was built for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from algorithms.grid import RANKS, parameters, places
from hemiola.algorithms.library import ALGORITHMS
from hemiola.compiler.compile import compile_program
from hemiola.compiler.options import CompileOptions
from hemiola.ir.opcodes import Opcode
from hemiola.ir.verify import verify


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("instances", [1, 4])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_compiles_and_verifies(name: str, instances: int, slots: int) -> None:
    algorithm = ALGORITHMS[name]
    for chosen in parameters(algorithm, RANKS):
        for in_place in places(algorithm):
            program = algorithm.build(**chosen, in_place=in_place, instances=instances)
            plan = compile_program(program, CompileOptions(slots=slots)).plan
            wanted = program.collective.refine(plan.collective.chunks // program.collective.chunks)
            verdict = verify(plan, slots=slots, collective=wanted)
            assert verdict.ok, (chosen, in_place, verdict.failures[:1])
            assert verdict.preserves_input, (chosen, in_place)


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if ALGORITHMS[name].kind == "allreduce"])
def test_all_ranks_add_in_the_same_order(name: str) -> None:
    for chosen in parameters(ALGORITHMS[name], RANKS[1:9]):
        assert compile_program(ALGORITHMS[name].build(**chosen)).verdict.same_expression, chosen


@pytest.mark.parametrize("slots", [1, 2])
def test_a_plan_is_rejected_once_any_step_does_nothing(slots: int) -> None:
    """The proof above can fail: it does for every step of a plan that is left out."""
    plan = compile_program(ALGORITHMS["reducescatter_ring"].build(ranks=4), CompileOptions(slots=slots)).plan
    for step in range(plan.num_steps):
        steps = plan.steps.copy()
        steps["opcode"][step] = Opcode.NOP
        assert not verify(replace(plan, steps=steps), slots=slots).ok
