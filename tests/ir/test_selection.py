"""The runtimes' selection rules, each once passed and once failed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hemiola.collectives import AllGather, AllReduce, AllToAll, AllToNext, Broadcast, Collective, Gather
from hemiola.ir.plan import DEPENDENCY, RANK, STEP, THREADBLOCK, Plan, Protocol
from hemiola.ir.selection import RuleResult, Runtime, SelectionRequest, explain_selection

MSCCL_ENVIRONMENT = {"MSCCL_XML_FILES": "a.xml", "NCCL_ALGO": "MSCCL,RING,TREE"}
RCCL_ENVIRONMENT = {"MSCCL_ALGO_DIR": "algorithms"}


def plan_for(collective: Collective, **changes: Any) -> Plan:
    inputs, outputs = collective.stored_chunks()
    ranks = np.zeros(collective.num_ranks, RANK)
    ranks["input_chunks"], ranks["output_chunks"] = inputs, outputs
    empty = (np.empty(0, THREADBLOCK), np.empty(0, STEP), np.empty(0, DEPENDENCY))
    plan = Plan("p", collective, Protocol.LL, ranks, *empty, min_bytes=1024, max_bytes=1 << 20)
    return replace(plan, **changes)


def request_for(runtime: Runtime, **changes: Any) -> SelectionRequest:
    environment = MSCCL_ENVIRONMENT if runtime is Runtime.MSCCL else RCCL_ENVIRONMENT
    request = SelectionRequest(
        runtime=runtime, num_ranks=4, bytes=1 << 16, dtype="bf16", op="sum", environment=environment
    )
    return replace(request, **changes)


def rule(plan: Plan, request: SelectionRequest, name: str) -> RuleResult:
    (found,) = (rule for rule in explain_selection(plan, request).rules if rule.name == name)
    return found


ALLREDUCE = AllReduce(4, 8)
MSCCL, RCCL = Runtime.MSCCL, Runtime.RCCL


@pytest.mark.parametrize("runtime", Runtime)
@pytest.mark.parametrize("collective", [ALLREDUCE, AllGather(4, 2), AllToAll(4, 2)])
def test_a_fitting_file_is_used(runtime: Runtime, collective: Collective) -> None:
    selection = explain_selection(plan_for(collective), request_for(runtime))
    assert selection.used
    assert selection.obstacles == ()


CASES: list[tuple[Runtime, str, dict[str, Any], str]] = [
    (MSCCL, "ranks", {"num_ranks": 8}, ""),
    (RCCL, "ranks", {"num_ranks": 8}, ""),
    (MSCCL, "place", {"in_place": True}, ""),
    (RCCL, "place", {"in_place": True}, ""),
    (MSCCL, "size", {"bytes": 1 << 20}, ""),
    (MSCCL, "size", {"bytes": 1008}, ""),
    (RCCL, "size", {"bytes": (1 << 20) + 16}, ""),
    (RCCL, "size", {"bytes": 1008}, ""),
    (MSCCL, "divisible", {"bytes": (1 << 16) + 8}, ""),
    (RCCL, "divisible", {"bytes": (1 << 16) + 8}, ""),
    (RCCL, "divisible", {"bytes": 0}, ""),
    (RCCL, "data type", {"dtype": "int4"}, ""),
    (MSCCL, "operator known", {"op": "median"}, ""),
    (RCCL, "operator", {"op": "avg"}, ""),
    (RCCL, "operator", {"op": "premulsum"}, ""),
    (RCCL, "data type for all-reduce", {"dtype": "fp8"}, ""),
    (RCCL, "data type for all-reduce", {"bytes": (8 << 20) + 16}, ""),
    (MSCCL, "file named", {"environment": {"NCCL_ALGO": "MSCCL"}}, "MSCCL_XML_FILES"),
    (MSCCL, "algorithm on", {"environment": {"MSCCL_XML_FILES": "a.xml"}}, "NCCL_ALGO"),
    (MSCCL, "algorithm on", {"environment": {"NCCL_ALGO": "RING,TREE"}}, "NCCL_ALGO"),
    (MSCCL, "algorithm on", {"environment": {"NCCL_ALGO": "^msccl"}}, "NCCL_ALGO"),
    (MSCCL, "protocol on", {"environment": {"NCCL_PROTO": "Simple,LL128"}}, "NCCL_PROTO"),
    (RCCL, "MSCCL on", {"environment": {"RCCL_MSCCL_ENABLE": "0"}}, "RCCL_MSCCL_ENABLE"),
    (RCCL, "machine", {"on_by_default": False}, "RCCL_MSCCL_FORCE_ENABLE"),
    (
        RCCL, "processes", {"single_process": True, "environment": {"RCCL_MSCCL_ENABLE_SINGLE_PROCESS": "0"}},
        "RCCL_MSCCL_ENABLE_SINGLE_PROCESS",
    ),
    (RCCL, "scheduler", {"environment": {"MSCCL_SCHEDULER": "libx.so"}}, "MSCCL_SCHEDULER"),
    (RCCL, "file found", {"environment": {}}, "MSCCL_ALGO_DIR"),
]  # fmt: skip


@pytest.mark.parametrize(("runtime", "name", "changes", "variable"), CASES)
def test_a_rule_that_stands_in_the_way_is_named(
    runtime: Runtime, name: str, changes: dict[str, Any], variable: str
) -> None:
    plan = plan_for(ALLREDUCE)
    good, bad = request_for(runtime), request_for(runtime, **changes)
    assert rule(plan, good, name).passed
    failed = rule(plan, bad, name)
    assert not failed.passed
    assert failed.variable == variable
    selection = explain_selection(plan, bad)
    assert not selection.used
    assert failed in selection.obstacles


@pytest.mark.parametrize(
    ("name", "runtime", "changes"),
    [
        ("algorithm on", MSCCL, {"environment": {"NCCL_ALGO": "^RING"}}),
        ("algorithm on", MSCCL, {"environment": {"NCCL_ALGO": "msccl"}}),
        ("protocol on", MSCCL, {"environment": {"NCCL_PROTO": "ll"}}),
        ("machine", RCCL, {"on_by_default": False, "environment": {"RCCL_MSCCL_FORCE_ENABLE": "1"}}),
        ("processes", RCCL, {"single_process": True}),
        ("MSCCL on", RCCL, {"environment": {"RCCL_MSCCL_ENABLE": "yes"}}),
        ("size", RCCL, {"bytes": 1 << 20}),
        ("size", RCCL, {"bytes": 1024}),
        ("size", MSCCL, {"bytes": 1024}),
        ("data type for all-reduce", RCCL, {"bytes": 8 << 20}),
        ("data type", RCCL, {"dtype": "Float16"}),
    ],
)
def test_a_rule_passes_at_its_edge(name: str, runtime: Runtime, changes: dict[str, Any]) -> None:
    assert rule(plan_for(ALLREDUCE), request_for(runtime, **changes), name).passed


def test_both_places_serve_both_calls_of_rccl() -> None:
    plan = plan_for(ALLREDUCE, both_places=True)
    for in_place in (False, True):
        assert rule(plan, request_for(RCCL, in_place=in_place), "place").passed


def test_in_place_alltoall_is_refused_by_msccl() -> None:
    plan = plan_for(AllToAll(4, 2, in_place=True))
    assert not rule(plan, request_for(MSCCL, in_place=True), "place").passed
    assert rule(plan, request_for(RCCL, in_place=True), "place").passed


def test_maxbytes_zero_is_no_end_for_rccl_and_nothing_for_msccl() -> None:
    plan = plan_for(ALLREDUCE, min_bytes=0, max_bytes=0)
    assert rule(plan, request_for(RCCL), "size").passed
    failed = rule(plan, request_for(MSCCL), "size")
    assert not failed.passed
    assert "takes literally" in failed.needed


def test_collectives() -> None:
    assert not rule(plan_for(Broadcast(4, 8)), request_for(MSCCL), "collective").passed
    assert rule(plan_for(Broadcast(4, 8)), request_for(RCCL), "collective").passed
    assert rule(plan_for(AllToNext(4, 8)), request_for(MSCCL), "collective").passed
    assert not rule(plan_for(AllToNext(4, 8)), request_for(RCCL), "collective").passed


def test_alltoall_does_not_ask_the_tuner() -> None:
    names = [r.name for r in explain_selection(plan_for(AllToAll(4, 2)), request_for(MSCCL)).rules]
    assert "algorithm on" not in names


def test_rccl_counts_one_share_of_a_gather() -> None:
    plan = plan_for(Gather(4, 8))
    assert rule(plan, request_for(RCCL, bytes=4096), "size").found == "1KiB"
    assert rule(plan, request_for(RCCL, bytes=4096), "size").passed
    assert rule(plan, request_for(RCCL, bytes=4096), "divisible").needed == (
        "a positive multiple of the 8 chunks per loop, 16 bytes"
    )


def test_a_broken_limit_is_a_rule() -> None:
    failed = rule(plan_for(ALLREDUCE, name="x" * 64), request_for(RCCL), "file loads")
    assert not failed.passed
    assert failed.found == "the name's length is 64, but 63 is allowed; choose a shorter name"


def test_more_channels_than_rccl_has_disable_the_file() -> None:
    plan = plan_for(ALLREDUCE)
    blocks = np.array([(0, -1, -1, 7, 0)], THREADBLOCK)
    plan = replace(plan, threadblocks=blocks)
    plan.ranks["first_threadblock"][1:] = 1
    environment = {**RCCL_ENVIRONMENT, "NCCL_MAX_NCHANNELS": "7"}
    assert not rule(plan, request_for(RCCL, environment=environment), "channels").passed
    environment["NCCL_MAX_NCHANNELS"] = "8"
    assert rule(plan, request_for(RCCL, environment=environment), "channels").passed
