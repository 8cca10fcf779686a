"""verify_sizes: for which sizes of a call a plan is correct under a runtime, and from which size on it hangs.

What a plan computes and whether its accesses are ordered does not depend on the size. Whether it ends does, because a
runtime packs the chunks of a step into more messages the longer they are, and every message takes a slot. There are at most
71 packings; each is proven by one run, and packings under which every step is as many messages share a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hemiola import _core
from hemiola.errors import LimitError
from hemiola.ir.plan import Plan, Protocol
from hemiola.ir.rows import plan_view
from hemiola.ir.runtime_slots import SlotRule, slot_rule
from hemiola.ir.size_windows import HEMIOLA, MSCCL, RUNTIMES, CountedBytes, SizeWindow, size_windows
from hemiola.ir.verdict import Failure, FailureKind, Verdict, explain_deadlock
from hemiola.ir.verify import verify

ENDLESS_SLOTS = (1 << 32) - 1
STOPPING = (FailureKind.FORM, FailureKind.CONNECTION, FailureKind.DEADLOCK)
"""Failures of plans that no slots let run to their end."""
OWN_SLOTS = 4
"""Our own runtime has so many slots, and sends every step as one message, whatever its size."""


@dataclass(frozen=True, slots=True)
class JudgedWindow:
    """Sizes with one packing, and the steps that wait for each other there."""

    window: SizeWindow
    cycle: list[_core.BlockedStep]

    @property
    def hangs(self) -> bool:
        """Whether a call of such a size never ends."""
        return bool(self.cycle)


@dataclass(frozen=True, slots=True)
class SizedVerdict:
    """What the proof says of a plan under one runtime, size by size."""

    runtime: str
    protocol: Protocol
    slots: int
    """Messages that a connection holds."""
    verdict: Verdict
    """What holds at every size: the postcondition, races, connections, and whether it ends with endless slots."""
    windows: tuple[JudgedWindow, ...]
    """All sizes of the runtime, ascending; empty where the plan cannot run, or stops at every size."""
    size_step: int
    """Sizes that the runtime takes are multiples of it."""
    min_bytes: int
    """The plan's own range, in sizes of a call."""
    max_bytes: int | None
    hang: Failure | None
    """The cycle at the first size that hangs."""
    hangs_from_bytes: int | None
    """The least size from ``min_bytes`` on at which the runtime would hang, whether or not the plan's range has it."""

    @property
    def correct_to_bytes(self) -> int | None:
        """The largest size below the first that hangs; None where no size hangs, 0 where all do."""
        if self.hangs_from_bytes is None:
            return None
        below = self.hangs_from_bytes - self.size_step
        return below if below >= max(self.min_bytes, 1) else 0

    @property
    def hangs_in_range(self) -> bool:
        """Whether the plan's own range has a size that hangs."""
        first = self.hangs_from_bytes
        return first is not None and (self.max_bytes is None or first <= self.max_bytes)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What is wrong at sizes that the plan is meant for."""
        hangs = (self.hang,) if self.hang is not None and self.hangs_in_range else ()
        return (*self.verdict.failures, *hangs)

    @property
    def ok(self) -> bool:
        """Correct at every size of the plan's own range."""
        return not self.failures

    def hangs_at(self, num_bytes: int) -> bool:
        """Whether a call of that size would hang; a size that the runtime does not take is judged like the next that it takes."""
        size = -(-num_bytes // self.size_step) * self.size_step
        ends = (one for one in self.windows if one.window.max_bytes is None or size <= one.window.max_bytes)
        found = next(ends, None)
        return found is not None and found.hangs


def verify_sizes(plan: Plan, runtime: str, *, slots: int | None = None) -> SizedVerdict:
    """The verdict on a plan under a runtime; ``slots`` replaces the number that the runtime has."""
    rule, windows, counted = _rules(plan, runtime)
    slots = rule.slots if slots is None else slots
    verdict = replace(verify(plan, slots=ENDLESS_SLOTS), slots=slots)
    stops = any(failure.kind in STOPPING for failure in verdict.failures)
    judged = () if stops else _judge(plan, slots, windows)
    step = counted.size(1)
    least, most = _own_range(plan, runtime, counted.factor)
    sizes = ((one, one.window.first_from(least, step)) for one in judged if one.hangs)
    first = next(((one, size) for one, size in sizes if size is not None), None)
    return SizedVerdict(
        runtime,
        plan.protocol,
        slots,
        verdict,
        judged,
        step,
        least,
        most,
        None if first is None else _explain(plan, runtime, slots, *first),
        None if first is None else first[1],
    )


def _rules(plan: Plan, runtime: str) -> tuple[SlotRule, tuple[SizeWindow, ...], CountedBytes]:
    if runtime not in RUNTIMES:
        raise LimitError(f"expected one of {', '.join(RUNTIMES)} as the runtime, but found {runtime!r}")
    if runtime == HEMIOLA:
        longest = max(1, int(plan.steps["count"].max(initial=1)))
        rule = SlotRule(slots=OWN_SLOTS, payload_bytes=1, most_chunks=longest)
        return rule, (SizeWindow(longest, 1, None),), CountedBytes(1)
    rule, counted = slot_rule(runtime, plan.protocol), CountedBytes.of(plan.collective, runtime)
    return rule, size_windows(rule, counted), counted


def _judge(plan: Plan, slots: int, windows: Sequence[SizeWindow]) -> tuple[JudgedWindow, ...]:
    packings = [window.packing for window in windows]
    runs = _core.run_packings(plan_view(plan), slots=slots, least=min(packings), most=max(packings))
    cycle_of = {
        packing: run.cycle for run in runs for packing in range(run.least_packing, run.most_packing + 1)
    }
    return tuple(JudgedWindow(window, cycle_of[window.packing]) for window in windows)


def _own_range(plan: Plan, runtime: str, factor: int) -> tuple[int, int | None]:
    """The sizes that the plan is meant for, as tests print them; msccl does not serve the end itself."""
    most = plan.max_bytes - (runtime == MSCCL)
    return plan.min_bytes * factor, most * factor if plan.max_bytes else None


def _explain(plan: Plan, runtime: str, slots: int, judged: JudgedWindow, size: int) -> Failure:
    packing = judged.window.packing
    connections = f"{slots} slot{'' if slots == 1 else 's'} per connection"
    if runtime == HEMIOLA:
        return explain_deadlock(plan, judged.cycle, f"with {connections}, a step being one message")
    situation = (
        f"from {size} bytes on, under {runtime} with {plan.protocol.value}"
        f" ({connections}, a message carries {packing} chunk{'s' * (packing > 1)})"
    )
    return explain_deadlock(plan, judged.cycle, situation)
