"""A plan as text: golden files, and the words of every opcode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from hemiola.collectives import AllReduce, Broadcast, SendRecv
from hemiola.ir.opcodes import Opcode
from hemiola.ir.plan import DEPENDENCY, RANK, STEP, THREADBLOCK, Plan, Protocol
from hemiola.ir.text import plan_text
from strategies import plans


def every_opcode() -> Plan:
    """Rank 0 does every opcode once, on one chunk and on two, and waits now and then; rank 1 does nothing."""
    steps = np.zeros(2 * len(Opcode), STEP)
    steps["opcode"] = [*Opcode, *Opcode]
    steps["count"] = np.where(steps["opcode"] == Opcode.NOP, 0, np.arange(len(steps)) // len(Opcode) + 1)
    steps["src_index"], steps["dst_buffer"], steps["dst_index"] = 1, 2, 2
    counts = np.zeros(len(steps), int)
    counts[len(Opcode)], counts[-1] = 1, 2
    steps["first_dependency"] = np.cumsum(counts) - counts
    steps["line"][3] = 1
    return Plan(
        "every opcode", AllReduce(2, 4, in_place=True), Protocol.LL128,
        np.array([(4, 0, 4, 0), (4, 0, 0, 2)], RANK),
        np.array([(0, 1, 1, 0, 0), (0, 1, -1, 3, len(Opcode))], THREADBLOCK),
        steps, np.array([(0, 1), (0, 4), (0, 8)], DEPENDENCY), lines=("ring.py:7",), min_bytes=1024, max_bytes=1 << 20,
    )  # fmt: skip


def test_every_opcode(golden: Callable[[str, str], None]) -> None:
    plan = every_opcode()
    plan.threadblocks["recv_peer"][1] = 1
    golden("text/every_opcode.txt", plan_text(plan))


def test_chosen_ranks_only() -> None:
    text = plan_text(every_opcode(), [1])
    assert text.endswith("rank 1: input 4, output 0, scratch 0\n")
    assert "rank 0" not in text


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"max_bytes": 0}, "  protocol LL128, for 1KiB and more"),
        ({"min_bytes": 0, "max_bytes": 0}, "  protocol LL128, for all sizes"),
        ({"both_places": True}, "  collective allreduce, 2 ranks, chunks 4, in place and out of place"),
        (
            {"collective": Broadcast(2, 4, root=1)},
            "  collective broadcast, 2 ranks, chunks 4, out of place, root 1",
        ),
        (
            {"collective": SendRecv(2, 4)},
            "  collective sendrecv, 2 ranks, chunks 4, out of place, from 0 to 1",
        ),
    ],
)
def test_the_head(changes: dict[str, object], line: str) -> None:
    assert line in plan_text(replace(every_opcode(), **changes)).splitlines()  # type: ignore[arg-type]


@given(plans())
def test_a_line_for_everything(plan: Plan) -> None:
    text = plan_text(plan)
    assert text == plan_text(plan)
    assert len(text.splitlines()) == 4 + len(plan.ranks) + len(plan.threadblocks) + len(plan.steps)
