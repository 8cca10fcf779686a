"""The library as a source of plans: what is chosen is what was asked for, proven, and the same everywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from math import prod
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hemiola.algorithms.library import ALGORITHMS
from hemiola.collectives import FACTS, KINDS, CollectiveKind
from hemiola.compiler.compile import Compiled, compile_program
from hemiola.compiler.options import CompileOptions
from hemiola.errors import CollectiveError, RunError
from hemiola.ir.opcodes import TRAITS
from hemiola.ir.plan import Plan
from hemiola.ir.verify import verify
from hemiola.language.program import Program
from hemiola.runtime.plans.plan_source import PlanRequest, plan_digest
from hemiola.tuning import library_plans
from hemiola.tuning.library_plans import LibraryPlans

KINDS_WITH_PLANS = [kind for kind in KINDS if kind != "custom"]
LIBRARY = LibraryPlans()
SENDS = np.array([t.sends for t in TRAITS])


@st.composite
def requests(draw: st.DrawFn) -> PlanRequest:
    """Any collective on up to 20 ranks, laid out over hosts in every way, at sizes around every window."""
    kind = draw(st.sampled_from(KINDS_WITH_PLANS))
    num_ranks = draw(st.integers(1, 20))
    local = draw(st.integers(1, num_ranks))
    blocks = tuple(rank // local for rank in range(num_ranks))
    hosts = draw(
        st.sampled_from(
            [(0,) * num_ranks, blocks, tuple(reversed(blocks)), tuple(rank % 2 for rank in range(num_ranks))]
        )
    )
    size = draw(st.sampled_from([0, 1, 7, 4096, *(1 << exponent for exponent in range(12, 27))]))
    return PlanRequest(
        kind=kind,
        num_ranks=num_ranks,
        hosts=hosts,
        num_bytes=max(0, size + draw(st.integers(-1, 1))),
        in_place=FACTS[kind].can_be_in_place and draw(st.booleans()),
        root=draw(st.integers(0, num_ranks - 1)),
        peer=draw(st.integers(0, num_ranks - 1)),
        same_expression=draw(st.booleans()),
    )  # fmt: skip


@settings(deadline=None)  # the first example compiles plans
@given(requests())
def test_the_plan_is_what_was_asked_for(request: PlanRequest) -> None:
    choice = LIBRARY.choose(request)
    asked, found = request.collective(), choice.plan.collective
    assert (found.kind, found.num_ranks, found.in_place) == (asked.kind, asked.num_ranks, asked.in_place)
    if request.kind in ("broadcast", "reduce", "gather", "scatter", "sendrecv"):
        assert found.root == asked.root
    if request.kind == "sendrecv":
        assert found.peer == asked.peer
    assert choice.digest == plan_digest(choice.plan)
    assert choice.reason


@settings(deadline=None)  # the first example compiles plans
@given(requests())
def test_the_plan_is_proven(request: PlanRequest) -> None:
    plan = LIBRARY.choose(request).plan
    asked = replace(request.collective(), chunks=plan.collective.chunks)
    if request.kind not in ("broadcast", "reduce", "gather", "scatter", "sendrecv"):
        asked = replace(asked, root=0, peer=0)
    verdict = verify(plan, slots=2, collective=asked)
    assert verdict.ok
    assert verdict.preserves_input
    assert verdict.same_expression or not request.same_expression


@settings(deadline=None)  # the first example compiles plans
@given(requests())
def test_every_algorithm_is_explained_once(request: PlanRequest) -> None:
    explanation = LIBRARY.explain(request)
    assert explanation.chosen == LIBRARY.choose(request)
    assert explanation.chosen is not None
    names = [explanation.chosen.plan.name, *(other.name for other in explanation.others)]
    assert sorted(names) == sorted(
        name for name, algorithm in ALGORITHMS.items() if algorithm.kind == request.kind
    )
    assert all(other.reason for other in explanation.others)
    assert len(str(explanation).splitlines()) == 1 + len(names)


def asked(
    kind: str = CollectiveKind.ALLREDUCE, num_ranks: int = 8, num_bytes: int = 4096, **more: Any
) -> PlanRequest:
    hosts = more.pop("hosts", (0,) * num_ranks)
    return PlanRequest(
        cast(CollectiveKind, kind), len(hosts), hosts, num_bytes, **{"in_place": False, **more}
    )


def test_a_choice_is_made_once() -> None:
    plans = LibraryPlans()
    assert plans.choose(asked()) is plans.choose(asked())
    assert plans.choose(asked()).plan is plans.choose(asked(num_bytes=1)).plan


def test_threads_get_one_plan() -> None:
    plans = LibraryPlans()
    with ThreadPoolExecutor(8) as pool:
        chosen = list(pool.map(lambda rank: plans.choose(asked(num_bytes=1 << 20)).plan, range(64)))
    assert len({id(plan) for plan in chosen}) == 1


DIGESTS = """
import json
from hemiola.runtime.plans.plan_source import PlanRequest
from hemiola.tuning.library_plans import LibraryPlans
plans = LibraryPlans()
questions = [PlanRequest(**{**fields, "hosts": tuple(fields["hosts"])}) for fields in json.loads(input())]
print(json.dumps([plans.choose(question).digest.hex() for question in questions]))
"""


def test_every_process_has_the_same_plan() -> None:
    questions = [
        PlanRequest(kind, len(hosts), hosts, num_bytes, in_place, root=2, peer=1)
        for kind in KINDS_WITH_PLANS
        for hosts in ((0,) * 5, (0, 0, 1, 1))
        for num_bytes in (1, 1 << 18, 1 << 24)
        for in_place in ((False, True) if FACTS[kind].can_be_in_place else (False,))
    ]
    written = json.dumps([asdict(question) for question in questions])
    found = subprocess.run(
        [sys.executable, "-c", DIGESTS], input=written, capture_output=True, text=True, check=True
    )
    own = [LIBRARY.choose(question).digest.hex() for question in questions]
    assert json.loads(found.stdout) == own
    assert len(set(own)) > len(KINDS_WITH_PLANS)


def bytes_between_hosts(plan: Plan, hosts: tuple[int, ...]) -> float:
    """What crosses from host to host, in inputs of one rank."""
    length = np.diff(np.append(plan.threadblocks["first_step"], len(plan.steps)))
    block = np.repeat(plan.threadblocks, length)
    sends = SENDS[plan.steps["opcode"]]
    crosses = np.array(hosts)[block["rank"][sends]] != np.array(hosts)[block["send_peer"][sends]]
    chunks = int(plan.collective.named_chunks()[0].max())
    return int(plan.steps["count"][sends][crosses].sum()) / chunks


@pytest.mark.parametrize("kind", ["allreduce", "allgather", "reducescatter"])
@pytest.mark.parametrize("num_bytes", [1 << 16, 1 << 26])
@pytest.mark.parametrize("levels", [(2, 4), (3, 4), (4, 3)])
def test_nothing_of_the_library_sends_less_between_hosts(
    kind: str, num_bytes: int, levels: tuple[int, int]
) -> None:
    hosts = tuple(rank // levels[1] for rank in range(prod(levels)))
    plan = LIBRARY.choose(asked(kind, hosts=hosts, num_bytes=num_bytes)).plan
    sent = {
        name: bytes_between_hosts(compile_program(algorithm.build(ranks=len(hosts))).plan, hosts)
        for name, algorithm in ALGORITHMS.items()
        if algorithm.kind == kind and "levels" not in algorithm.parameters
    }
    assert bytes_between_hosts(plan, hosts) <= min(sent.values()), sent
    assert bytes_between_hosts(plan, hosts) < sent[f"{kind}_ring"]


@pytest.mark.parametrize(
    ("hosts", "reason"),
    [
        ((0, 0, 1, 1, 1), "hosts have from 2 to 3 ranks"),
        ((0, 1, 0, 1), "rank 1 of another host stands between ranks of host 0"),
    ],
)
@pytest.mark.parametrize("kind", ["allreduce", "allgather", "reducescatter"])
def test_a_layout_that_forbids_levels_is_said_to(kind: str, hosts: tuple[int, ...], reason: str) -> None:
    explanation = LIBRARY.explain(asked(kind, hosts=hosts, num_bytes=1 << 26))
    assert explanation.chosen is not None
    assert explanation.chosen.plan.name == f"{kind}_ring"
    (refused,) = [other for other in explanation.others if other.name == f"{kind}_hierarchical"]
    assert refused.reason.startswith(reason)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("num_ranks", [1, 2, 3, 5, 8, 13, 16])
def test_every_all_reduce_has_the_same_bits_everywhere(num_ranks: int, in_place: bool) -> None:
    for name, algorithm in ALGORITHMS.items():
        if algorithm.kind == "allreduce":
            levels = {"levels": (1, num_ranks)} if "levels" in algorithm.parameters else {}
            program = algorithm.build(ranks=num_ranks, in_place=in_place, **levels)
            assert compile_program(program).verdict.same_expression, name


def test_the_same_bits_are_asked_of_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def doubtful(program: Program, options: CompileOptions) -> Compiled:
        compiled = compile_program(program, options)
        same = program.name != "allreduce_one_step"
        return replace(compiled, verdict=replace(compiled.verdict, same_expression=same))

    monkeypatch.setattr(library_plans, "compile_program", doubtful)
    plans = LibraryPlans()
    assert plans.choose(asked(num_bytes=0)).plan.name == "allreduce_one_step"
    demanding = asked(num_bytes=0, same_expression=True)
    assert plans.choose(demanding).plan.name == "allreduce_allpairs"
    (refused,) = [other for other in plans.explain(demanding).others if other.name == "allreduce_one_step"]
    assert refused.reason.startswith("its ranks do not all add up in the same order")


def test_uneven_shares_go_directly() -> None:
    hosts = (0, 0, 1, 1)
    assert LIBRARY.choose(asked("alltoall", hosts=hosts)).plan.name == "alltoall_two_step"
    uneven = asked("alltoall", hosts=hosts, uneven=True)
    assert LIBRARY.choose(uneven).plan.name == "alltoall_allpairs"
    assert (
        "differ in length"
        in {other.name: other for other in LIBRARY.explain(uneven).others}["alltoall_two_step"].reason
    )
    with pytest.raises(RunError, match=r"no plan for alltoall of 4 ranks .*differ in length"):
        LIBRARY.choose(replace(uneven, in_place=True))


@pytest.mark.parametrize("ask", [LIBRARY.choose, LIBRARY.explain])
def test_a_contradictory_request_is_refused(ask: Any) -> None:
    with pytest.raises(CollectiveError, match="sendrecv has no in-place form"):
        ask(asked("sendrecv", in_place=True))
    with pytest.raises(CollectiveError, match="there is no collective 'allsum'"):
        ask(asked("allsum"))
    with pytest.raises(CollectiveError, match="custom collective cannot be asked for"):
        ask(asked("custom"))
