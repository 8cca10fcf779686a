"""proven_range: a plan whose own range of sizes ends before the first size at which its target's runtime would hang."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hemiola.errors import VerificationError
from hemiola.ir.plan import Plan
from hemiola.ir.size_windows import CountedBytes
from hemiola.ir.targets import Target, as_written
from hemiola.ir.verify_sizes import verify_sizes


@dataclass(frozen=True, slots=True)
class RangedPlan:
    """A plan that no size of its own range lets hang."""

    plan: Plan
    runtime: str | None
    """Under which that was proven; None where the target's runtime does not depend on sizes."""
    hangs_from_bytes: int | None = None
    """The first size at which it would hang, were it used there."""


def within_proven_range(plan: Plan, target: Target) -> RangedPlan:
    """The plan with its largest size lowered where the target's runtime would hang from a size on.

    Raises VerificationError where it would hang at every size that it is meant for.
    """
    if target.runtime is None:
        return RangedPlan(plan, None)
    sized = verify_sizes(as_written(plan, target), target.runtime)
    first, last = sized.hangs_from_bytes, sized.correct_to_bytes
    if first is None or last is None or not sized.hangs_in_range:
        return RangedPlan(plan, target.runtime, first)
    if last == 0:
        assert sized.hang is not None
        raise VerificationError(
            f"{plan.name} would hang under {target.runtime} at every size that it is meant for, so no file is written; "
            f"compile it with fewer --slots: {sized.hang.message}"
        )
    counted = CountedBytes.of(plan.collective, target.runtime)
    end = last // counted.factor + target.end_is_outside
    return RangedPlan(replace(plan, max_bytes=end), target.runtime, first)
