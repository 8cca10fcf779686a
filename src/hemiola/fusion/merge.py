"""merge: the best buckets of neighbouring gradients for given groups.

Gradients stand in the order in which groups make them. A bucket of the gradients i to j is sent at the later of two times: when gradient j is
ready, and when the bucket before it has been sent. So the earliest time at which the first j gradients can have been sent is made of the earliest
times of fewer gradients, for any price (MG-WFBP solves this for a latency and a rate). With an optimizer two times count, that of the
last message and that of the last optimizer, and all cuts are kept of which no other is as early in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from hemiola._core import StepModel
from hemiola.errors import FusionError
from hemiola.fusion.collective_times import CollectiveTimes
from hemiola.fusion.evaluate import Numbers, StepEvaluator
from hemiola.fusion.group_times import Seconds
from hemiola.fusion.plan import Bucket


def merge_gradients(
    ready: Sequence[float], num_bytes: Sequence[int], collectives: CollectiveTimes, groups_end: float
) -> tuple[list[range], float]:
    """The cut of a row of gradients into buckets after which the last optimizer ends earliest, and when that is.

    Each gradient is ready at a time that does not fall along the row; all groups have ended at ``groups_end``. Contention and
    calls are not looked at; `merged_buckets` does.
    """
    times = np.asarray(ready, np.float64)
    if len(times) != len(num_bytes) or np.any(np.diff(times) < 0):
        raise FusionError(
            f"merging: {len(times)} times of {len(num_bytes)} gradients; every gradient has one, and they do not fall along the row"
        )
    sizes = np.asarray(num_bytes, np.float64)
    merged = StepModel(collectives.step_costs, sizes).merge(times, sizes, groups_end)
    return [range(first, end) for first, end in pairwise(merged.first.tolist())], merged.seconds


def merged_buckets(
    evaluator: StepEvaluator, seconds: Seconds, home: Numbers, *, apart: bool = True
) -> tuple[tuple[Bucket, ...], float]:
    """All-reduces for groups with these seconds, and the step that they give; exact where there is neither contention nor a cost of calls.

    Gradients of one group stay in one bucket unless they may go ``apart``.
    """
    found = evaluator.model.merge_step(
        seconds, evaluator.ready_groups(home), evaluator.read_groups(home), apart
    )
    gradients = found.gradients.tolist()
    buckets = tuple(Bucket(tuple(gradients[first:end])) for first, end in pairwise(found.first.tolist()))
    return buckets, found.seconds
