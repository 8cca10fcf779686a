"""What averaging gradients costs: from the tuned plans of a system's devices, or from a file of measured times."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

from hemiola.collectives import CollectiveKind
from hemiola.cost.price import Price
from hemiola.cost.request import CollectiveRequest
from hemiola.cost.time_source import TimeSource
from hemiola.errors import FusionError
from hemiola.fusion.collective_times import CollectiveTimes, MessageTimes
from hemiola.fusion.read_trace import TracedStep
from hemiola.placement.requests import Where, find_request, find_system
from hemiola.planning import price
from hemiola.tuning.tune import tune

LEAST_BYTES = 1 << 12
KINDS = (CollectiveKind.ALLREDUCE, CollectiveKind.REDUCESCATTER, CollectiveKind.ALLGATHER)


def collectives_of_system(
    system: Where,
    num_workers: int | None,
    gradient_bytes: int,
    *,
    axes: str | None = None,
    placement: str | None = None,
    over: str | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> CollectiveTimes:
    """Prices of the best plans for workers on the first devices of a system, or for the groups over some axes of a placement."""
    machine = find_system(system)
    sizes = [LEAST_BYTES]
    while sizes[-1] < gradient_bytes:
        sizes.append(sizes[-1] * 4)
    prices: list[Price] = []
    for number, kind in enumerate(KINDS):
        request = find_request(kind, machine, axes=axes, placement=placement, over=over)
        if axes is None and num_workers is not None:
            request = _first_devices(request, num_workers)
        prices.append(price(tune(request, sizes)))
        progress(number + 1, len(KINDS))
    allreduce, reduce_scatter, all_gather = prices
    return CollectiveTimes.of_prices(allreduce, reduce_scatter, all_gather, request.num_ranks)


def _first_devices(request: CollectiveRequest, num_workers: int) -> CollectiveRequest:
    system = request.system
    if not 2 <= num_workers <= system.num_ranks:
        raise FusionError(
            f"{num_workers} workers were asked for; system {system.name!r} has {system.num_ranks} devices, and at least two average gradients"
        )
    return replace(request, groups=(tuple(range(num_workers)),))


def collectives_of_file(path: Path) -> CollectiveTimes:
    """Times that `hemiola.torch`'s measure_collectives wrote on the running process group."""
    try:
        fields: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return CollectiveTimes(
            allreduce=_measured(fields["allreduce"]),
            reduce_scatter=_measured(fields["reduce_scatter"]),
            all_gather=_measured(fields["all_gather"]),
            num_workers=int(fields["num_workers"]),
            contention_seconds_per_byte=float(fields["contention_seconds_per_byte"]),
            copy_seconds_per_byte=float(fields["copy_seconds_per_byte"]),
            source=TimeSource.MEASURED,
        )
    except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FusionError(
            f"{path}: no measured collectives ({error!r}); write them on all workers with: python -m"
            " hemiola.integrations.torch.measure_collectives FILE"
        ) from None


def _measured(seconds: dict[str, float]) -> MessageTimes:
    return MessageTimes.measured({int(size): [float(value)] for size, value in seconds.items()})


def collectives_of_trace(step: TracedStep, num_workers: int) -> CollectiveTimes:
    """A latency and a rate through the medians of the all-reduces that a trace has; halves of it for the two parts of a split."""
    samples: dict[int, list[float]] = {}
    for one in step.collectives:
        samples.setdefault(one.num_bytes, []).append(one.seconds)
    if len(samples) < 2:
        raise FusionError(
            f"the trace has all-reduces of {len(samples)} sizes, and a latency and a rate need two; say with --system or --collectives"
            " what messages take, or record a step with other buckets"
        )
    latency, rate = _line(samples)
    update = step.optimizer_seconds / max(1, step.graph.gradient_bytes)
    return replace(
        CollectiveTimes.line(latency, rate, num_workers),
        optimizer_seconds_per_byte=update,
        source=TimeSource.MEASURED,
    )


def _line(samples: dict[int, list[float]]) -> tuple[float, float]:
    """The median slope of all pairs of sizes and the median latency that is left, neither below zero."""
    points = [(size, median(values)) for size, values in sorted(samples.items())]
    slopes = [(high[1] - low[1]) / (high[0] - low[0]) for low, high in combinations(points, 2)]
    rate = max(0.0, median(slopes))
    return max(0.0, median(seconds - rate * size for size, seconds in points)), rate
