"""deliver: a plan reaches its file only after what lies in the file has been read back and proven."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hemiola.errors import VerificationError
from hemiola.ir.formats import read_plan, write_plan
from hemiola.ir.plan import Plan
from hemiola.ir.proven_range import within_proven_range
from hemiola.ir.targets import Target
from hemiola.ir.verdict import Verdict
from hemiola.ir.verify import verify


def deliver(plan: Plan, path: str | os.PathLike[str], target: Target, *, slots: int) -> Verdict:
    """Write ``plan`` for ``target``, read the file back, prove it, and only then give it its name.

    The range of sizes in the file ends where the target's runtime would begin to hang. Raises LimitError when the target cannot hold the plan and VerificationError when the file does not say
    what the plan said; in both cases ``path`` is left as it was.
    """
    final = Path(path)
    plan = within_proven_range(plan, target).plan
    with tempfile.TemporaryDirectory(dir=final.parent, prefix=f".{final.name}.") as folder:
        written = Path(folder) / final.name
        write_plan(plan, written, target)
        verdict = verify(read_plan(written, collective=plan.collective), slots=slots)
        if not verdict.ok:
            raise VerificationError(
                f"{final}: the file does not hold the plan that was compiled; please report this: "
                f"{verdict.failures[0].message}"
            )
        written.replace(final)
    return verdict
