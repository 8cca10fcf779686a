"""Calls that one rank makes differently from the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from hemiola import Communicator
from hemiola.algorithms.library import build
from hemiola.compiler.compile import compile_program
from hemiola.compiler.options import CompileOptions
from hemiola.errors import HemiolaError
from runtime.fault_calls import Call, WrongResultError, perform
from runtime.fault_crew import Seat

ODD_RANK = 1
TIMEOUT_SECONDS = 10.0
"""A mismatch that is only noticed by waiting shows as another error."""

Step = Callable[[Communicator], object]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """What the others call and what the odd rank calls; a barrier follows on all ranks."""

    usual: list[Step]
    odd: list[Step]
    num_right: int = 0
    """How many steps come before the one that differs."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the steps of a rank ended; what returned before was right."""

    error: str
    step: int
    """Number of the step that raised; the last one is the barrier."""
    text: str


def make_mismatches(seat: Seat) -> None:
    """Run mismatches by name, each in a communicator of its own, as long as the test asks for more."""
    while (name := seat.hear()) is not None:
        mismatch = MISMATCHES[name]
        steps = mismatch.odd if seat.rank == ODD_RANK else mismatch.usual
        with seat.communicator(timeout=TIMEOUT_SECONDS, name=name) as comm:
            seat.tell(_run([*steps, Communicator.barrier], comm))


def _run(steps: list[Step], comm: Communicator) -> Outcome:
    for number, step in enumerate(steps):
        try:
            step(comm)
        except (HemiolaError, WrongResultError) as error:
            return Outcome(type(error).__name__, number, str(error))
    return Outcome("none", len(steps), "")


def _call(kind: str, share: int = 1000, dtype: str = "float32", op: str = "sum", root: int = 0) -> Step:
    return partial(perform, call=Call(kind, share, dtype, op, root, shift=1))


def _all_reduce_later(comm: Communicator, share: int) -> None:
    handle = comm.all_reduce(np.ones(share, np.float32), wait=False)
    assert handle is not None
    handle.wait()


def _run_plan(comm: Communicator, algorithm: str) -> None:
    program = build(algorithm, {"ranks": str(comm.world_size), "in_place": "true"})
    plan = compile_program(program, CompileOptions(slots=2)).plan
    data = np.full(4096, comm.rank + 1, np.int64)
    comm.run(plan, data)
    if not (data == comm.world_size * (comm.world_size + 1) // 2).all():
        raise WrongResultError(f"plan {algorithm} gave {data[:4]}")


def _exchange(comm: Communicator, sends: int, receives: int) -> None:
    """An all-to-all in which a rank sends so many elements to each other, and expects so many from each."""
    input_lengths, output_lengths = [sends] * comm.world_size, [receives] * comm.world_size
    input_lengths[comm.rank] = output_lengths[comm.rank] = 1
    data = np.full(sum(input_lengths), comm.rank, np.int32)
    output = np.full(sum(output_lengths), -1, np.int32)
    comm.all_to_all(data, output, input_lengths=input_lengths, output_lengths=output_lengths)
    if not (output == np.repeat(np.arange(comm.world_size), output_lengths)).all():
        raise WrongResultError(f"shares of {output_lengths} came as {output}")


_MEBI = 1 << 20

MISMATCHES: dict[str, Mismatch] = {
    "collective": Mismatch([_call("all_reduce")], [_call("all_gather")]),
    "collective of the same form": Mismatch([_call("all_to_all")], [_call("reduce_scatter")]),
    "size": Mismatch([_call("all_reduce")], [_call("all_reduce", 1001)]),
    "size with another plan": Mismatch([_call("all_reduce", 16)], [_call("all_reduce", _MEBI)]),
    "size that is larger": Mismatch([_call("all_gather", _MEBI)], [_call("all_gather", 16)]),
    "size zero": Mismatch([_call("all_reduce")], [_call("all_reduce", 0)]),
    "type": Mismatch([_call("all_reduce")], [_call("all_reduce", dtype="int32")]),
    "type of the same bytes": Mismatch([_call("all_gather", 1000)], [_call("all_gather", 500, "float64")]),
    "operator": Mismatch([_call("all_reduce")], [_call("all_reduce", op="max")]),
    "place": Mismatch([_call("all_reduce")], [_call("all_reduce_apart")]),
    "plan": Mismatch(
        [partial(_run_plan, algorithm="allreduce_ring")],
        [partial(_run_plan, algorithm="allreduce_allpairs")],
    ),
    "root of a broadcast": Mismatch([_call("broadcast", root=0)], [_call("broadcast", root=2)]),
    "root of a large broadcast": Mismatch(
        [_call("broadcast", _MEBI, root=0)], [_call("broadcast", _MEBI, root=2)]
    ),
    "root of a reduction": Mismatch([_call("reduce", root=0)], [_call("reduce", root=1)]),
    "broadcast against a sum": Mismatch([_call("broadcast", root=0)], [_call("all_reduce")]),
    "sum against a broadcast": Mismatch([_call("all_reduce")], [_call("broadcast", root=ODD_RANK)]),
    "scatter against a gather": Mismatch([_call("scatter", root=0)], [_call("gather", root=0)]),
    "two that both could end": Mismatch([_call("gather", root=ODD_RANK)], [_call("scatter", root=ODD_RANK)]),
    "order": Mismatch(
        [_call("all_reduce", 100), _call("all_gather", 200)],
        [_call("all_gather", 200), _call("all_reduce", 100)],
    ),
    "order after right calls": Mismatch(
        [*[_call("all_reduce")] * 20, _call("broadcast"), _call("all_reduce")],
        [*[_call("all_reduce")] * 20, _call("all_reduce"), _call("broadcast")],
        num_right=20,
    ),
    "one call more": Mismatch([_call("all_reduce")], [_call("all_reduce")] * 2, num_right=1),
    "one call less": Mismatch([_call("all_reduce")] * 2, [_call("all_reduce")], num_right=1),
    "a call under way": Mismatch(
        [partial(_all_reduce_later, share=100)],
        [partial(_all_reduce_later, share=200)],
    ),
    "lengths": Mismatch(
        [partial(_exchange, sends=30, receives=30)],
        [partial(_exchange, sends=20, receives=30)],
    ),
    "lengths of many messages": Mismatch(
        [partial(_exchange, sends=100_000, receives=100_000)],
        [partial(_exchange, sends=300_000, receives=100_000)],
    ),
}


def disagree_on_a_message(seat: Seat, sent: int, expected: int) -> None:
    """Rank 1 expects a message of another length than rank 0 sends; rank 0 sends again when rank 1 knows."""
    with seat.communicator(timeout=TIMEOUT_SECONDS) as comm:
        steps: list[Step] = [lambda comm: comm.recv(np.ones(expected), 0)]
        if seat.rank == 0:
            steps = [lambda comm: comm.send(np.ones(sent), 1), lambda comm: seat.hear()]
            steps.append(steps[0])
        seat.tell(_run(steps, comm))
