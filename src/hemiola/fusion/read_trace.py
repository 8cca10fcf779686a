"""read_trace: a training step, its times and its collectives from a trace of torch's profiler, of a CPU or a GPU job.

With such a trace the search over buckets needs neither the model nor a GPU. Operators are what the compute stream of a GPU ran, or what
the main thread did; they stand in a row, since a trace does not say which operator reads what. A gradient is there when `AccumulateGrad`
has it. Time in which the row stands still until a collective ends is exposed communication; any other gap belongs to the operator before it, because
that is how long the program took to give the next one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median_low

import numpy as np

from hemiola.errors import FusionError
from hemiola.fusion.graph import Gradient, Operator, OpGraph, StepPhase, Tensor, WorkKind
from hemiola.fusion.group_times import Seconds
from hemiola.fusion.plan import Group
from hemiola.fusion.trace_events import ELEMENT_BYTES, Event, outermost, read_events, tensor_bytes

STEP = "ProfilerStep#"
ACCUMULATE = "torch::autograd::AccumulateGrad"
BACKWARD = "autograd::engine::evaluate_function"
OPTIMIZER = "Optimizer.step"
CALL = "c10d::"


@dataclass(frozen=True, slots=True)
class TracedCollective:
    """A collective as it was measured."""

    name: str
    num_bytes: int
    seconds: float


@dataclass(frozen=True)
class TracedStep:
    """A step of a trace."""

    graph: OpGraph
    operator_seconds: tuple[float, ...]
    collectives: tuple[TracedCollective, ...]
    """In the order in which they began."""
    optimizer_seconds: float
    exposed_seconds: float
    """Standing still until a collective ends."""
    seconds: float
    """Of the whole step, as measured."""

    @property
    def compute_seconds(self) -> float:
        """Of all operators; the optimizer is apart."""
        return sum(self.operator_seconds)


@dataclass(frozen=True)
class TracedTimes:
    """Seconds of groups of a traced step: a trace says nothing of what fusing would save, so times add up."""

    step: TracedStep

    @cached_property
    def own(self) -> Seconds:
        """Of every operator."""
        return np.array(self.step.operator_seconds)

    def seconds(self, groups: Sequence[Group]) -> Seconds:
        """The sum of its operators for each group."""
        return np.array([self.own[list(group)].sum() for group in groups])


def read_trace(path: Path) -> TracedStep:
    """The step of median length of a trace; ``.json`` or ``.json.gz``."""
    events = read_events(path)
    step = _median_step(events)
    inside = [event for event in events if event.inside(step)]
    on_gpu = any(event.category == "kernel" for event in inside)
    row = _gpu_row(inside) if on_gpu else _cpu_row(inside, step)
    if not row.operators:
        raise FusionError(
            f"{path}: step {step.name!r} has no operators; record CPU and, where there is one, CUDA activity"
        )
    gradients = [event for event in inside if event.name == ACCUMULATE]
    if not gradients:
        raise FusionError(
            f"{path}: step {step.name!r} has no {ACCUMULATE}; record a step with its backward pass"
        )
    return _traced(path, step, row, gradients, inside)


@dataclass(frozen=True)
class _Row:
    """What computes, in order, and when each operator was given to the device."""

    operators: list[Event]
    given: list[float]
    collectives: list[Event]
    optimizer: list[bool]
    """Whether each operator belongs to the optimizer."""
    calls: list[Event]
    """Calls of collectives inside of operators of the main thread, whose time is none of the operator's."""


def _median_step(events: Sequence[Event]) -> Event:
    steps = [event for event in events if event.name.startswith(STEP) and event.category == "user_annotation"]
    if not steps:
        end = max(event.end for event in events)
        return Event("the whole trace", "", "", events[0].begin, end + 1e-9, {})
    middle = median_low([event.end - event.begin for event in steps])
    return next(event for event in steps if event.end - event.begin == middle)


def _is_collective(event: Event) -> bool:
    name = event.name.lower()
    if event.category == "kernel":
        return name.startswith(("nccl", "rccl", "mscclkernel"))
    return event.category == "user_annotation" and name.startswith(("gloo:", "mpi:", "hemiola:"))


def _gpu_row(events: Sequence[Event]) -> _Row:
    """Kernels of the busiest stream that are no collectives, in the order in which they began."""
    kernels = [event for event in events if event.category in ("kernel", "gpu_memcpy", "gpu_memset")]
    collectives = [event for event in kernels if _is_collective(event)]
    busy: Counter[str] = Counter()
    for event in kernels:
        if not _is_collective(event):
            busy[event.thread] += int((event.end - event.begin) * 1e9)
    main = busy.most_common(1)[0][0] if busy else ""
    operators = [event for event in kernels if event.thread == main and not _is_collective(event)]
    launches = {
        event.fields["correlation"]: event.begin
        for event in events
        if event.category in ("cuda_runtime", "cuda_driver", "hip_runtime") and "correlation" in event.fields
    }
    given = [launches.get(event.fields.get("correlation"), event.begin) for event in operators]
    spans = [event for event in events if event.name.startswith(OPTIMIZER)]
    flags = [any(span.begin <= one < span.end for span in spans) for one in given]
    return _Row(operators, given, collectives, flags, [])


def _cpu_row(events: Sequence[Event], step: Event) -> _Row:
    """Outermost operators of the thread that takes the step, annotations left out."""
    threads = Counter(event.thread for event in events if event.category == "cpu_op")
    main = step.thread if step.thread in threads else threads.most_common(1)[0][0] if threads else ""
    own = [event for event in events if event.category == "cpu_op" and event.thread == main]
    operators = outermost(own)
    spans = [event for event in events if event.name.startswith(OPTIMIZER)]
    flags = [any(event.inside(span) for span in spans) for event in operators]
    collectives = [event for event in events if _is_collective(event)]
    calls = [event for event in own if event.name.startswith(CALL)]
    return _Row(operators, [event.begin for event in operators], collectives, flags, calls)


def _traced(
    path: Path, step: Event, row: _Row, gradients: Sequence[Event], events: Sequence[Event]
) -> TracedStep:
    seconds, exposed = _row_seconds(row, step)
    first_backward = min(
        (event.begin for event in events if event.name.startswith(BACKWARD)), default=step.end
    )
    chosen = [number for number, flag in enumerate(row.optimizer) if not flag]
    optimizer = sum(seconds[number] for number, flag in enumerate(row.optimizer) if flag)
    graph = _chain(path, row, chosen, gradients, first_backward)
    found = tuple(
        TracedCollective(event.name, size, event.end - event.begin)
        for event in row.collectives
        if (size := _collective_bytes(event, events)) is not None
    )
    own = tuple(seconds[number] for number in chosen)
    return TracedStep(graph, own, found, optimizer, exposed, step.end - step.begin)


def _row_seconds(row: _Row, step: Event) -> tuple[list[float], float]:
    """Every operator with the gap behind it, and the gaps in which a collective ends, which are exposed."""
    seconds, exposed = [], 0.0
    begins = [event.begin for event in row.calls]
    ends = sorted(event.end for event in row.collectives)
    limits = [*(event.begin for event in row.operators[1:]), step.end]
    for event, limit in zip(row.operators, limits, strict=True):
        low = min(event.end, limit)
        after = ends[bisect_right(ends, low) :]
        last = max((end for end in after if end <= limit), default=None)
        still = last - low if last is not None else 0.0
        first, behind = bisect_left(begins, event.begin), bisect_left(begins, event.end)
        called = sum(call.end - call.begin for call in row.calls[first:behind])
        exposed += still
        seconds.append(max(0.0, limit - event.begin - still - called))
    return seconds, exposed


def _chain(
    path: Path, row: _Row, chosen: Sequence[int], gradients: Sequence[Event], first_backward: float
) -> OpGraph:
    """Operators in a row: each reads what the one before it makes."""
    given = [row.given[number] for number in chosen]
    tensors = [Tensor(f"after {position}", (), "", 0) for position in range(len(chosen))]
    operators = []
    for position, number in enumerate(chosen):
        event = row.operators[number]
        phase = StepPhase.FORWARD if row.given[number] < first_backward else StepPhase.BACKWARD
        inputs = (position - 1,) if position else ()
        operators.append(
            Operator(
                f"{position} {event.name}",
                event.name,
                WorkKind.OPAQUE,
                phase,
                inputs,
                (position,),
                f"{event.name}#{position}",
            )
        )
    found = []
    for number, event in enumerate(sorted(gradients, key=lambda one: one.begin)):
        size = tensor_bytes(event)
        if size is None:
            raise FusionError(
                f"{path}: the trace has no shapes of gradients; record it with torch.profiler.profile(record_shapes=True)"
            )
        position = max(0, bisect_right(given, event.begin) - 1)
        found.append(Gradient(f"gradient {number}", position, size))
    return OpGraph(path.name, tuple(tensors), tuple(operators), tuple(found), (len(chosen) - 1,))


def _collective_bytes(event: Event, events: Sequence[Event]) -> int | None:
    """Of the message, by what PyTorch says of it, or by the tensor that it was given."""
    named = [event, *_param_comms(event, events)]
    for one in named:
        elements = [one.fields.get("In msg nelems"), one.fields.get("Out msg nelems")]
        counts = [count for count in elements if isinstance(count, int) and count > 0]
        size = ELEMENT_BYTES.get(str(one.fields.get("dtype", "")).lower())
        if counts and size is not None:
            return size * max(counts)
    return tensor_bytes(event)


def _param_comms(event: Event, events: Sequence[Event]) -> list[Event]:
    """The events ``record_param_comms`` of the call that launched a kernel."""
    number = event.fields.get("External id")
    return [
        one
        for one in events
        if one.name == "record_param_comms" and number is not None and one.fields.get("External id") == number
    ]
