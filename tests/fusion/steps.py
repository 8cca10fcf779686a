"""Hypothesis strategies for small training steps, plans and collective times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from hemiola.fusion.collective_times import CollectiveTimes, MessageTimes
from hemiola.fusion.graph import Gradient, Operator, OpGraph, StepPhase, Tensor, WorkKind
from hemiola.fusion.group_times import Seconds
from hemiola.fusion.plan import Bucket, BucketForm, FusionPlan, Group

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For properties: the machine may be busy."""


@dataclass(frozen=True)
class SumTimes:
    """A group takes what its operators take, and a call."""

    own: tuple[float, ...]
    call: float = 0.0

    def seconds(self, groups: Sequence[Group]) -> Seconds:
        return np.array([self.call + sum(self.own[one] for one in group) for group in groups])


def chain(
    seconds: Sequence[float], gradients: Sequence[tuple[int, int, int]], name: str = "chain"
) -> OpGraph:
    """Operators one after another; of each gradient the operator that makes it, the one that reads its parameter, and bytes."""
    num = len(seconds)
    tensors = [Tensor(f"t{number}", (1,), "float32", 4) for number in range(num)]
    reads: dict[int, list[int]] = {}
    found, makes = [], dict[int, list[int]]()
    for number, (made, read, size) in enumerate(gradients):
        tensors.append(Tensor(f"w{number}", (size,), "uint8", size))
        reads.setdefault(read, []).append(len(tensors) - 1)
        tensors.append(Tensor(f"g{number}", (size,), "uint8", size))
        makes.setdefault(made, []).append(len(tensors) - 1)
        found.append(Gradient(f"w{number}", len(tensors) - 1, size, (len(tensors) - 2,)))
    operators = tuple(
        Operator(
            f"op{number}",
            "work",
            WorkKind.POINTWISE,
            StepPhase.FORWARD if number < num // 2 else StepPhase.BACKWARD,
            (*((number - 1,) if number else ()), *reads.get(number, ())),
            (number, *makes.get(number, ())),
            f"op{number}",
        )
        for number in range(num)
    )
    return OpGraph(name, tuple(tensors), operators, tuple(found), (num - 1,))


@st.composite
def graphs(draw: st.DrawFn, max_operators: int = 10, max_gradients: int = 5) -> OpGraph:
    """Operators that read some of those before them, parameters that any of them reads, and gradients that later ones make."""
    num = draw(st.integers(2, max_operators))
    tensors = [Tensor(f"t{number}", (4,), "float32", 4 * draw(st.integers(1, 50))) for number in range(num)]
    inputs = [set(draw(st.lists(st.integers(0, max(0, one - 1)), max_size=3))) if one else set() for one in range(num)]  # fmt: skip
    outputs = [[one] for one in range(num)]
    found = []
    for number in range(draw(st.integers(1, max_gradients))):
        size = draw(st.integers(1, 40))
        tensors += [
            Tensor(f"w{number}", (size,), "uint8", size),
            Tensor(f"g{number}", (size,), "uint8", size),
        ]
        known = draw(st.booleans())
        inputs[draw(st.integers(0, num - 1))].add(len(tensors) - 2)
        outputs[draw(st.integers(0, num - 1))].append(len(tensors) - 1)
        found.append(Gradient(f"w{number}", len(tensors) - 1, size, (len(tensors) - 2,) if known else ()))
    works = st.sampled_from([WorkKind.POINTWISE, WorkKind.REDUCTION, WorkKind.MATMUL, WorkKind.RANDOM])
    operators = tuple(
        Operator(
            f"op{one}",
            "work",
            draw(works),
            StepPhase.FORWARD,
            tuple(sorted(inputs[one])),
            tuple(outputs[one]),
            f"op{one}",
            float(draw(st.integers(0, 1000))),
        )
        for one in range(num)
    )
    return OpGraph("drawn", tuple(tensors), operators, tuple(found), (num - 1,))


@st.composite
def plans(draw: st.DrawFn, graph: OpGraph, *, split: bool = True, parts: int = 3) -> FusionPlan:
    """Contiguous groups, some operators again in later groups, and any buckets in any order."""
    num = len(graph.operators)
    cuts = sorted({0, num, *draw(st.lists(st.integers(1, num), max_size=num))})
    groups = [set(range(low, high)) for low, high in pairwise(cuts)]
    for one in draw(st.lists(st.integers(0, num - 1), max_size=2)):
        home = next(number for number, group in enumerate(groups) if one in group)
        if graph.operators[one].work is WorkKind.RANDOM:
            continue
        groups[draw(st.integers(home, len(groups) - 1))].add(one)
    order = draw(st.permutations(range(len(graph.gradients))))
    ends = sorted({0, len(order), *draw(st.lists(st.integers(1, len(order)), max_size=4))})
    forms = st.sampled_from(BucketForm) if split else st.just(BucketForm.ALLREDUCE)
    buckets = [
        Bucket(tuple(order[low:high]), draw(forms), draw(st.integers(1, parts)))
        for low, high in pairwise(ends)
    ]
    return FusionPlan.of(graph, [tuple(sorted(group)) for group in groups], buckets)


def message_times() -> st.SearchStrategy[MessageTimes]:
    """Tables of up to four sizes whose times may jump, and do not fall."""
    rows = st.lists(st.tuples(st.integers(1, 200), st.integers(0, 60)), min_size=1, max_size=4)
    return st.builds(
        lambda points, first, slope: MessageTimes(
            tuple(float(size) for size in sorted({size for size, _ in points})),
            tuple(
                first + float(time)
                for time in sorted(time for _, time in points)[: len({size for size, _ in points})]
            ),
            slope / 16,
        ),
        rows,
        st.integers(1, 40),
        st.integers(0, 32),
    )


@st.composite
def collective_times(draw: st.DrawFn, *, contention: bool = True, overheads: bool = True) -> CollectiveTimes:
    """Times in units of about one: groups take 0 to 50."""
    amount = st.sampled_from([0.0, 0.25, 1.0]) if overheads else st.just(0.0)
    return CollectiveTimes(
        draw(message_times()),
        draw(message_times()),
        draw(message_times()),
        draw(st.integers(2, 4)),
        contention_seconds_per_byte=draw(st.sampled_from([0.0, 0.1, 0.5, 2.0])) if contention else 0.0,
        copy_seconds_per_byte=draw(amount) / 8,
        call_seconds=draw(amount),
        optimizer_seconds_per_byte=draw(amount) / 4,
        optimizer_call_seconds=draw(amount),
    )
