"""Tables as bytes: how structured arrays cross into C++ and back without a copy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hemiola import _core
from hemiola.collectives import Meaning
from hemiola.ir.plan import Plan


def as_bytes(rows: npt.NDArray[np.void]) -> npt.NDArray[np.uint8]:
    """The memory of a table."""
    return np.ascontiguousarray(rows).view(np.uint8).reshape(-1)


def from_bytes(data: npt.NDArray[np.uint8], row: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """The table that lies in ``data``."""
    return data.view(row)


def plan_view(plan: Plan) -> _core.PlanView:
    """The four tables of a plan."""
    return _core.PlanView(*map(as_bytes, (plan.ranks, plan.threadblocks, plan.steps, plan.dependencies)))


def meaning_view(meaning: Meaning) -> _core.MeaningView:
    """What a collective starts from and promises."""
    return _core.MeaningView(
        as_bytes(meaning.held), as_bytes(meaning.promised), meaning.set_first, meaning.runs
    )
