"""bounds: step times that no plan can beat, whatever it fuses, duplicates, reorders or merges.

All rest on two lower estimates that no plan changes: what each operator takes at least in any group (`least_operator_seconds`, kept true by
`AtLeast`), and what bytes take at least in any messages (`CollectiveTimes.least_seconds`). A plan that computes more or sends in smaller pieces is
farther above them, and lowers none.

- **overlap**: computation and communication each go on all the time.
- **in step**: no gradient travels before it is computed, and the step ends when all have arrived. By time t computation has done at most t, so the bytes
  that can have been ready are at most those of the best set of operators, closed under what they read, that takes t; the others travel after t.
  The best sets for all t are bounded by maximum closures (Picard 1976), one minimum cut for each trade of bytes against seconds.
- **steady**: all-gathers may hide behind the next forward pass. Take gradients S. Their bytes travel between the first of S that is ready and the
  last of S whose parameter the next step reads; all operators that read what needs that parameter, and that all of S need, run in the rest of
  the period.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any

import numpy as np

from hemiola.fusion.collective_times import CollectiveTimes, MessageTimes
from hemiola.fusion.graph import OpGraph, WorkKind
from hemiola.fusion.group_times import GroupTimes, Seconds
from hemiola.fusion.plan import BucketForm, FusionPlan, Group

LARGEST_FLOW = 1 << 30
"""Flows are computed with 32-bit numbers; all capacities of the source together are scaled to this."""
MOST_CLOSURES = 24
"""Minimum cuts that are computed; fewer give a lower bound, never a wrong one."""
NUM_TIMES = 256
"""Times at which the in-step limit is looked for, beside those at which it bends."""


@dataclass(frozen=True, slots=True)
class StepBounds:
    """No step is faster."""

    overlap_seconds: float
    in_step_seconds: float
    """Of plans without split buckets."""
    steady_seconds: float
    """Of all plans."""

    def of(self, plan: FusionPlan) -> float:
        """The one that applies to a plan."""
        split = any(bucket.form is BucketForm.SPLIT for bucket in plan.buckets)
        return self.steady_seconds if split else self.in_step_seconds


@dataclass(frozen=True)
class AtLeast:
    """Group times with a floor: no group takes less than its operators take at least."""

    times: GroupTimes
    least: Seconds

    def seconds(self, groups: Sequence[Group]) -> Seconds:
        """Of each group, in order."""
        floor = np.array([self.least[list(group)].sum() for group in groups])
        found: Seconds = np.maximum(self.times.seconds(groups), floor)
        return found


def least_operator_seconds(
    graph: OpGraph, times: GroupTimes, *, bytes_per_second: float, call_seconds: float
) -> Seconds:
    """What each operator takes at least, in whatever group it is.

    A product, a convolution and any other kernel of its own takes the same everywhere: its time alone without that of the call. Of an operator that
    fuses, memory traffic is left that no fusion saves: tensors that are given to the step or come from a kernel of its own, counted where
    they are first read, and tensors that leave the step or go to a kernel of its own.
    """
    kernels = [number for number, one in enumerate(graph.operators) if one.work.is_kernel_of_its_own]
    least = _unavoidable_bytes(graph) / bytes_per_second
    alone = np.asarray(times.seconds([(one,) for one in kernels]), np.float64) if kernels else np.zeros(0)
    least[kernels] = np.maximum(alone - call_seconds, 0.0)
    return least


def step_bounds(graph: OpGraph, least: Seconds, collectives: CollectiveTimes) -> StepBounds:
    """All bounds of a graph, by what each of its operators takes at least."""
    total = float(graph.gradient_bytes)
    compute = float(least.sum()) + collectives.copy_seconds_per_byte * total
    update = collectives.optimizer_seconds_per_byte * total
    sharded = compute + update / collectives.num_workers
    overlap = max(sharded, _Least.either(collectives).seconds(total, total))
    in_step = max(overlap, compute + update, in_step_limit(graph, least, collectives))
    return StepBounds(overlap, in_step, max(overlap, steady_limit(graph, least, collectives)))


def in_step_limit(graph: OpGraph, least: Seconds, collectives: CollectiveTimes) -> float:
    """The maximum over t of t and the time of all bytes that cannot be ready before t."""
    copy, total = collectives.copy_seconds_per_byte, float(graph.gradient_bytes)
    sizes = np.array([gradient.num_bytes for gradient in graph.gradients], np.float64)
    messages = _Least.allreduce(collectives)
    earliest = _needed_seconds(graph, least) + copy * sizes
    best = max(
        (
            float(time) + messages.seconds(float(sizes[earliest >= time].sum()), total)
            for time in set(earliest)
        ),
        default=0.0,
    )
    lines = _ready_lines(graph, least, sizes, copy)
    if lines:
        slopes, offsets = np.array(lines).T
        for time in np.linspace(0.0, float(least.sum()) + copy * total, NUM_TIMES):
            ready = min(total, float((offsets + slopes * time).min()))
            best = max(best, float(time) + messages.seconds(total - ready, total))
    return best


def steady_limit(graph: OpGraph, least: Seconds, collectives: CollectiveTimes) -> float:
    """The maximum over sets of gradients that the next forward pass reads first of their bytes and what must run beside."""
    if not graph.gradients:
        return float(least.sum())
    total, messages = float(graph.gradient_bytes), _Least.either(collectives)
    before, after = _ancestors(graph), _descendants(graph)
    every = (1 << len(graph.operators)) - 1
    makers = [graph.producers[gradient.tensor] for gradient in graph.gradients]
    reads = [reduce(or_, (after[one] for one in readers)) if readers else every for readers in graph.readers]
    order = sorted(range(len(makers)), key=lambda one: (min(graph.readers[one], default=0), one))
    sets = [order[: number + 1] for number in range(len(order))] + [[one] for one in order]
    best = 0.0
    for chosen in sets:
        between = reduce(and_, (reads[one] & before[makers[one]] for one in chosen))
        num_bytes = sum(graph.gradients[one].num_bytes for one in chosen)
        best = max(best, _sum_of(between, least) + messages.seconds(float(num_bytes), total))
    return best


@dataclass(frozen=True)
class _Least:
    """What bytes take at least, in one or another form."""

    forms: tuple[tuple[MessageTimes, ...], ...]

    @staticmethod
    def allreduce(collectives: CollectiveTimes) -> _Least:
        return _Least(((collectives.allreduce,),))

    @staticmethod
    def either(collectives: CollectiveTimes) -> _Least:
        return _Least(((collectives.allreduce,), (collectives.reduce_scatter, collectives.all_gather)))

    def seconds(self, num_bytes: float, most_bytes: float) -> float:
        """Of messages that carry at least so many bytes, and at most so many; longer tables may be faster than shorter."""
        if num_bytes <= 0:
            return 0.0
        known = {size for form in self.forms for table in form for size in table.sizes}
        sizes = [num_bytes, most_bytes, *(size for size in known if num_bytes < size < most_bytes)]
        return min(self._of(size) for size in sizes)

    def _of(self, num_bytes: float) -> float:
        return num_bytes * min(sum(table.least_rate(num_bytes) for table in form) for form in self.forms)


def _unavoidable_bytes(graph: OpGraph) -> Seconds:
    """Of each operator: what it is the first to read of tensors that no fused kernel makes, and what it makes for somebody outside."""
    operators, made = graph.operators, graph.producers
    alone = [one.work.is_kernel_of_its_own for one in operators]
    asked = {tensor for one in operators if one.work.is_kernel_of_its_own for tensor in one.inputs}
    asked |= graph.leaving
    found, read = np.zeros(len(operators)), set[int]()
    for number, operator in enumerate(operators):
        if alone[number] or operator.work is WorkKind.VIEW:
            continue
        first = {tensor for tensor in operator.inputs if tensor not in made or alone[made[tensor]]} - read
        read |= first
        moved = first | asked.intersection(operator.outputs)
        found[number] = sum(graph.tensors[tensor].num_bytes for tensor in moved)
    return found


def _ready_lines(graph: OpGraph, least: Seconds, sizes: Seconds, copy: float) -> list[tuple[float, float]]:
    """Lines (slope, offset): by time t at most offset + slope t bytes are ready. They touch the hull of what is possible."""
    network = _ClosureNetwork(graph, least, sizes, copy)
    lines: list[tuple[float, float]] = []
    left = [((0.0, 0.0), network.point(np.ones(len(least), bool)))]
    while left and len(lines) < MOST_CLOSURES:
        (early, few), (late, many) = left.pop(0)
        if late - early <= 0 or many - few <= 0:
            continue
        slope = (many - few) / (late - early)
        offset, (time, ready) = network.closure(slope)
        lines.append((slope, offset))
        if ready - slope * time > few - slope * early + 1e-9 * many:
            left += [((early, few), (time, ready)), ((time, ready), (late, many))]
    return lines


@dataclass(frozen=True)
class _ClosureNetwork:
    """Gradients from the source, what they need behind them, and computation to the sink."""

    graph: OpGraph
    least: Seconds
    sizes: Seconds
    copy: float

    def point(self, chosen: np.ndarray) -> tuple[float, float]:
        """Seconds and bytes of a closed set of operators."""
        made = self.graph.producers
        ready = np.array([chosen[made[gradient.tensor]] for gradient in self.graph.gradients], bool)
        num_bytes = float(self.sizes[ready].sum())
        return float(self.least[chosen].sum()) + self.copy * num_bytes, num_bytes

    def closure(self, slope: float) -> tuple[float, tuple[float, float]]:
        """No closed set has more bytes than slope times its seconds and this; and the set of the minimum cut.

        Capacities are rounded down, so the flow is one of the true network too, and what it leaves of the bytes is an upper bound.
        """
        num, count = len(self.graph.operators), len(self.sizes)
        gains = self.sizes * max(0.0, 1 - slope * self.copy)
        if not gains.any():
            return 0.0, (0.0, 0.0)
        scale = LARGEST_FLOW / float(gains.sum())
        source, sink = num + count, num + count + 1
        rows = [(source, num + number, int(gain * scale)) for number, gain in enumerate(gains)]
        rows += [
            (num + number, self.graph.producers[gradient.tensor], LARGEST_FLOW)
            for number, gradient in enumerate(self.graph.gradients)
        ]
        rows += [(one, other, LARGEST_FLOW) for one in range(num) for other in self.graph.predecessors[one]]
        ends = np.minimum(self.least * slope * scale, LARGEST_FLOW).astype(np.int32)
        rows += [(one, sink, int(end)) for one, end in enumerate(ends)]
        from_, to, capacity = np.array(rows, np.int64).T
        from scipy.sparse import csr_array  # takes long to import, and few ask for bounds
        from scipy.sparse.csgraph import maximum_flow

        network = csr_array((capacity.astype(np.int32), (from_, to)), shape=(sink + 1, sink + 1))
        result = maximum_flow(network, source, sink)
        left = network - result.flow
        chosen = _reached(left, source)[:num]
        return float(gains.sum()) - result.flow_value / scale, self.point(chosen)


def _reached(residual: Any, source: int) -> np.ndarray:
    """The vertices to which more could flow."""
    found = np.zeros(residual.shape[0], bool)
    found[source] = True
    left = [source]
    while left:
        row = left.pop()
        begin, end = residual.indptr[row], residual.indptr[row + 1]
        for to, capacity in zip(residual.indices[begin:end], residual.data[begin:end], strict=True):
            if capacity > 0 and not found[to]:
                found[to] = True
                left.append(int(to))
    return found


def _needed_seconds(graph: OpGraph, least: Seconds) -> Seconds:
    """What each gradient needs at least: its operator and everything before it."""
    before, made = _ancestors(graph), graph.producers
    return np.array([_sum_of(before[made[gradient.tensor]], least) for gradient in graph.gradients])


def _ancestors(graph: OpGraph) -> list[int]:
    """Each operator and all that it needs, as bits."""
    found: list[int] = []
    for number, predecessors in enumerate(graph.predecessors):
        found.append(reduce(or_, (found[one] for one in predecessors), 1 << number))
    return found


def _descendants(graph: OpGraph) -> list[int]:
    """Each operator and all that need it, as bits."""
    found = [0] * len(graph.operators)
    for number in range(len(found) - 1, -1, -1):
        found[number] = reduce(or_, (found[one] for one in graph.successors[number]), 1 << number)
    return found


def _sum_of(bits: int, amounts: Seconds) -> float:
    """Of the amounts whose bits are set."""
    rows = np.frombuffer(bits.to_bytes((len(amounts) + 7) // 8, "little"), np.uint8)
    return float(amounts[np.unpackbits(rows, count=len(amounts), bitorder="little").astype(bool)].sum())
