"""measure_tasks: compile and time groups, one after another, on one core of this process."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch

from hemiola.integrations.torch.measuring.group_task import GroupTask
from hemiola.integrations.torch.measuring.timing import ReferenceKernel, Timing, time_calls


def measure_tasks(tasks: Sequence[GroupTask]) -> list[Timing | str]:
    """The time of every task, or in one line why there is none."""
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    reference = ReferenceKernel()
    return [_measure(task, reference) for task in tasks]


def _measure(task: GroupTask, reference: ReferenceKernel) -> Timing | str:
    try:
        with torch.no_grad():
            return time_calls(task.prepare(), reference)
    except Exception as error:  # noqa: BLE001 (the compiler raises many kinds; the reason is kept with the group)
        return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:200]}"
