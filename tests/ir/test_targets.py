"""The limits of every target: what is allowed passes, one more is named with its place and its knob."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hemiola.collectives import (
    AllGather,
    AllReduce,
    AllToAll,
    Collective,
    Custom,
    Gather,
    ReduceScatter,
    Scatter,
)
from hemiola.errors import LimitError
from hemiola.ir.opcodes import Opcode
from hemiola.ir.plan import DEPENDENCY, RANK, STEP, THREADBLOCK, Plan, Protocol
from hemiola.ir.targets import (
    AZURE_XML,
    MSCCL_XML,
    PLAN,
    RCCL_XML,
    Target,
    broken_limits,
    check_limits,
    chunks_per_loop,
)


def copies(
    steps: list[int],
    *,
    channel: int = 0,
    count: int = 1,
    chunks: int = 80,
    num_ranks: int = 2,
    waits: list[tuple[int, int]] | None = None,
    name: str = "copies",
) -> Plan:
    """Rank 0 has a threadblock for every entry, which copies that often; the last copy waits for ``waits``."""
    ranks = np.zeros(num_ranks, RANK)
    ranks["input_chunks"] = ranks["output_chunks"] = chunks
    ranks["first_threadblock"][1:] = len(steps)
    blocks = np.zeros(len(steps), THREADBLOCK)
    blocks["send_peer"] = blocks["recv_peer"] = -1
    blocks["channel"] = channel
    blocks["first_step"] = np.cumsum(steps) - steps
    table = np.zeros(sum(steps), STEP)
    table["opcode"], table["dst_buffer"], table["count"] = Opcode.CPY, 1, count
    dependencies = np.array(waits or [], DEPENDENCY)
    collective = AllReduce(num_ranks, chunks)
    return Plan(name, collective, Protocol.LL, ranks, blocks, table, dependencies)


def peers(num_blocks: int, *, field: str = "send_peer") -> Plan:
    """Rank 0 with so many threadblocks that have a peer on channel 1."""
    plan = copies([1] * num_blocks, channel=1)
    plan.threadblocks[field] = 1
    return plan


def received(name: str) -> Plan:
    """Rank 0 with one step that receives and sends."""
    plan = copies([1])
    plan.threadblocks["send_peer"] = plan.threadblocks["recv_peer"] = 1
    plan.steps["opcode"] = Opcode[name.upper()]
    return plan


def sized(collective: Collective) -> Plan:
    inputs, outputs = collective.stored_chunks()
    ranks = np.zeros(collective.num_ranks, RANK)
    ranks["input_chunks"], ranks["output_chunks"] = inputs, outputs
    return replace(copies([]), collective=collective, ranks=ranks)


FEWER_CHUNKS = "cut the data into fewer chunks, or spread it over more channels (ch=, --instances)"
CASES: list[tuple[Target, Plan, Plan, str]] = [
    (
        MSCCL_XML, copies([256]), copies([1, 257]),
        f"rank 0, threadblock 1: the number of steps, nops included, is 257, but 256 is allowed; {FEWER_CHUNKS}",
    ),
    (
        RCCL_XML, copies([64]), copies([65]),
        f"rank 0, threadblock 0: the number of steps, nops included, is 65, but 64 is allowed; {FEWER_CHUNKS}",
    ),
    (
        RCCL_XML, copies([1, 1, 63], waits=[(0, 0), (1, 0)]), copies([1, 1, 64], waits=[(0, 0), (1, 0)]),
        f"rank 0, threadblock 2: the number of steps, nops included, is 65, but 64 is allowed; {FEWER_CHUNKS}",
    ),
    (
        MSCCL_XML, copies([1] * 216), copies([1] * 217),
        "rank 0: the number of threadblocks is 217, but 216 is allowed; use fewer --instances",
    ),
    (
        RCCL_XML, copies([1] * 64), copies([1] * 65),
        "rank 0: the number of threadblocks is 65, but 64 is allowed; use fewer --instances",
    ),
    (
        AZURE_XML, copies([256] + [1] * 215), copies([1] * 217),
        "rank 0: the number of threadblocks is 217, but 216 is allowed; use fewer --instances",
    ),
    (
        RCCL_XML, copies([1]), received("rcs"),
        "rank 0, threadblock 0, step 0: the operation is rcs, but only nop, s, r, cpy, re is allowed; the runtime has no "
        "kernel for it and ends the call with an internal error; compile it for this target, which takes such operations "
        "apart",
    ),
    (
        RCCL_XML, copies([1], channel=31), copies([1], channel=32),
        "the number of channels is 33, but 32 is allowed; use fewer --instances or fewer channels (ch=)",
    ),
    (
        MSCCL_XML, copies([1], count=71), copies([1], count=72),
        "rank 0, threadblock 0, step 0: the count is 72, but 71 is allowed; "
        "move fewer chunks at once, or cut the data into fewer chunks",
    ),
    (
        MSCCL_XML, peers(32), peers(33),
        "rank 0, channel 1: the number of threadblocks that send on one channel is 33, but 32 is allowed; "
        "spread the peers over more channels (ch=, --instances)",
    ),
    (
        RCCL_XML, peers(32, field="recv_peer"), peers(33, field="recv_peer"),
        "rank 0, channel 1: the number of threadblocks that receive on one channel is 33, but 32 is allowed; "
        "spread the peers over more channels (ch=, --instances)",
    ),
    (
        MSCCL_XML, copies([255] * 15 + [251]), copies([255] * 15 + [252]),
        "rank 0: the number of XML nodes is 4096, but 4095 is allowed; use fewer --instances or fewer chunks",
    ),
    (
        MSCCL_XML, copies([1], name="x" * 63), copies([1], name="x" * 64),
        "the name's length is 64, but 63 is allowed; choose a shorter name",
    ),
    (
        RCCL_XML, copies([1], num_ranks=1024), copies([1], num_ranks=1025),
        "the number of ranks is 1025, but 1024 is allowed; use fewer --ranks",
    ),
    (
        AZURE_XML, copies([1] * 129, waits=[(127, 0)]), copies([1] * 130, waits=[(128, 0)]),
        "rank 0, threadblock 129, step 0: the number of the threadblock waited for is 128, but 127 is allowed; "
        "use fewer --instances, so that fewer threadblocks exist",
    ),
    (
        RCCL_XML, copies([1], chunks=1 << 15), sized(AllGather(2, 1 << 14 | 1)),
        "rank 0: the number of output chunks is 32770, but 32768 is allowed; "
        "cut the data into fewer chunks, or use fewer --instances",
    ),
    (
        MSCCL_XML, copies([1]), replace(copies([1]), both_places=True),
        "the number of places is 2 (in place and out of place), but 1 is allowed; "
        "leave --both-places out and compile once for each",
    ),
    (
        MSCCL_XML, sized(AllToAll(3, 2)), sized(Gather(3, 2)),
        "rank 0: the number of input chunks is 2, but only 0 or the whole loop of 6 is allowed; "
        "this runtime cannot express gather with such buffers; use --target plan or rccl-xml",
    ),
]  # fmt: skip


def last_waits(plan: Plan) -> Plan:
    """The dependencies belong to the last step."""
    plan.steps["first_dependency"] = 0
    return plan


@pytest.mark.parametrize(("target", "good", "bad", "message"), CASES)
def test_a_limit_is_kept_or_named(target: Target, good: Plan, bad: Plan, message: str) -> None:
    assert broken_limits(last_waits(good), target) == []
    assert message in [limit.message for limit in broken_limits(last_waits(bad), target)]


def test_what_is_taken_apart_when_written_is_no_obstacle() -> None:
    for name in ("rcs", "rrs", "rrc", "rrcs"):
        check_limits(received(name), RCCL_XML)
        assert broken_limits(received(name), AZURE_XML) == []


def test_a_plan_that_does_not_fit_is_refused_with_the_numbers() -> None:
    """One step of one threadblock too many, because each of 22 fused steps is written as three."""
    plan = copies([22])
    plan.threadblocks["send_peer"] = plan.threadblocks["recv_peer"] = 1
    plan.steps["opcode"] = Opcode.RRS
    with pytest.raises(
        LimitError, match="rank 0, threadblock 0: the number of steps, nops included, is 66, but 64"
    ):
        check_limits(plan, RCCL_XML)


def test_all_broken_limits_are_told_together() -> None:
    plan = copies([300], name="x" * 64)
    with pytest.raises(LimitError) as caught:
        check_limits(plan, MSCCL_XML)
    assert str(caught.value) == (
        "msccl-xml cannot hold this plan: the name's length is 64, but 63 is allowed; choose a shorter name; "
        "rank 0, threadblock 0: the number of steps, nops included, is 300, but 256 is allowed; "
        + FEWER_CHUNKS
    )


def test_a_collective_that_the_runtime_lacks_is_named() -> None:
    custom = Custom(input_chunks=[1, 1], output_chunks=[1, 1], promises={})
    (limit,) = broken_limits(sized(custom), RCCL_XML)
    assert limit.message.startswith(
        "the collective is custom, but no such collective is allowed; rccl-xml knows"
    )
    assert broken_limits(sized(custom), MSCCL_XML) == []


def test_a_name_is_judged_as_it_is_written() -> None:
    assert broken_limits(copies([1], name="&" * 12), MSCCL_XML) == []
    (limit,) = broken_limits(copies([1], name="&" * 13), MSCCL_XML)
    assert limit.message == "the name's length is 65, but 63 is allowed; choose a shorter name"
    (limit,) = broken_limits(copies([1], name="a\nb"), RCCL_XML)
    assert (
        limit.message == r"the name is 'a\nb', but only what can be printed is allowed; choose another name"
    )


def test_the_native_file_has_no_limits() -> None:
    check_limits(copies([1000] * 300, channel=500, name="x" * 300), PLAN)


@pytest.mark.parametrize(
    ("collective", "msccl", "rccl"),
    [
        (AllReduce(4, 3), 3, 3),
        (AllGather(4, 3), 12, 12),
        (ReduceScatter(4, 3), 12, 12),
        (AllToAll(4, 3), 12, 12),
        (Gather(4, 3), 12, 3),
        (Scatter(4, 3), 12, 3),
        (Custom(input_chunks=[1, 5], output_chunks=[2, 4], promises={}), 5, 5),
    ],
)
def test_chunks_per_loop(collective: Collective, msccl: int, rccl: int) -> None:
    assert chunks_per_loop(collective, shares_of_all=True) == msccl
    assert chunks_per_loop(collective, shares_of_all=False) == rccl
