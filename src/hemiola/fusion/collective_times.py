"""CollectiveTimes: what gradients cost on the wire and on the core that computes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median

import numpy as np
import numpy.typing as npt

from hemiola._core import PriceTable, StepCosts
from hemiola.cost.price import Price
from hemiola.cost.time_source import TimeSource
from hemiola.errors import FusionError

Amounts = npt.NDArray[np.float64]


@dataclass(frozen=True)
class MessageTimes:
    """Seconds of one collective by its bytes: straight lines between sizes, and a slope beyond the last."""

    sizes: tuple[float, ...]
    """Ascending; up to the first, everything takes what that takes."""
    times: tuple[float, ...]
    slope: float
    """Seconds of every further byte beyond the last size."""

    def __post_init__(self) -> None:
        if not self.sizes or len(self.sizes) != len(self.times):
            raise FusionError(
                f"times of messages: {len(self.sizes)} sizes and {len(self.times)} times; there is a time for every size, and at least one"
            )
        if self.sizes[0] <= 0 or any(low >= high for low, high in pairwise(self.sizes)):
            raise FusionError(
                f"times of messages: sizes are above zero and ascend; found {list(self.sizes)[:8]}"
            )
        if min(*self.times, self.slope, 0.0) < 0:
            raise FusionError("times of messages: a time or the slope is below zero")

    @staticmethod
    def line(latency: float, seconds_per_byte: float) -> MessageTimes:
        """A latency and a rate."""
        return MessageTimes((1.0,), (latency + seconds_per_byte,), seconds_per_byte)

    @staticmethod
    def of_price(price: Price) -> MessageTimes:
        """A price as one table; buckets are padded to whole units of its plans, so no elements are left over."""
        known: dict[float, float] = {}
        before = 0.0
        for window in price.windows:
            first = float(np.floor(before / window.unit_bytes + 1)) * window.unit_bytes
            last = float(np.floor(window.max_bytes / window.unit_bytes)) * window.unit_bytes
            before = window.max_bytes
            ends = [first] if window is price.windows[-1] else [one for one in (first, last) if first <= last]
            sizes = np.array([*ends, *(size for size in window.sizes.tolist() if first < size < last)])
            known |= dict(zip(sizes.tolist(), window.at(sizes).tolist(), strict=True))
        ascending = tuple(sorted(known))
        return MessageTimes(ascending, tuple(known[size] for size in ascending), price.windows[-1].slope)

    @staticmethod
    def measured(samples: Mapping[int, Iterable[float]]) -> MessageTimes:
        """The medians of measured seconds of each size, made not to fall with the size; beyond, the last line goes on."""
        sizes = tuple(float(size) for size in sorted(samples))
        middle = [float(median(samples[int(size)])) for size in sizes]
        rising = [float(one) for one in np.maximum.accumulate(middle)] if middle else []
        slope = rising[-1] / sizes[-1] if rising else 0.0
        if len(sizes) > 1:
            slope = (rising[-1] - rising[-2]) / (sizes[-1] - sizes[-2])
        return MessageTimes(sizes, tuple(rising), slope)

    @cached_property
    def table(self) -> PriceTable:
        """For the simulator."""
        return PriceTable(np.array(self.sizes), np.array(self.times), self.slope)

    def __call__(self, num_bytes: float) -> float:
        """The seconds of one message."""
        return self.table(num_bytes)

    def least_rate(self, num_bytes: float) -> float:
        """The fewest seconds of a byte in any message of at most so many bytes.

        On a straight line seconds by bytes are least at one of its ends, so the known sizes and the given one are enough.
        """
        if num_bytes <= 0:
            return 0.0
        sizes = [size for size in self.sizes if size < num_bytes] + [num_bytes]
        return min(self(size) / size for size in sizes)


@dataclass(frozen=True)
class CollectiveTimes:
    """All that a bucket of gradients costs."""

    allreduce: MessageTimes
    reduce_scatter: MessageTimes
    all_gather: MessageTimes
    num_workers: int
    contention_seconds_per_byte: float = 0.0
    """Seconds of the core that computes for every byte of a bucket that is all-reduced; zero where a device of its own moves the bytes.
    Half of it falls to the reduce-scatter and half to the all-gather."""
    copy_seconds_per_byte: float = 0.0
    """To copy a gradient into its bucket."""
    call_seconds: float = 0.0
    """To start a message."""
    optimizer_seconds_per_byte: float = 0.0
    """Of parameters."""
    optimizer_call_seconds: float = 0.0
    """To start the optimizer on the parameters of one message."""
    source: TimeSource = TimeSource.ESTIMATED

    @staticmethod
    def line(latency: float, seconds_per_byte: float, num_workers: int) -> CollectiveTimes:
        """An all-reduce of this latency and rate, whose two halves take half of both."""
        half = MessageTimes.line(latency / 2, seconds_per_byte / 2)
        return CollectiveTimes(MessageTimes.line(latency, seconds_per_byte), half, half, num_workers)

    @staticmethod
    def of_prices(
        allreduce: Price, reduce_scatter: Price, all_gather: Price, num_workers: int
    ) -> CollectiveTimes:
        """From the prices of the three requests, each over the same groups."""
        return CollectiveTimes(
            MessageTimes.of_price(allreduce),
            MessageTimes.of_price(reduce_scatter),
            MessageTimes.of_price(all_gather),
            num_workers,
            source=allreduce.source,
        )

    @cached_property
    def step_costs(self) -> StepCosts:
        """For the simulator."""
        return StepCosts(
            self.allreduce.table,
            self.reduce_scatter.table,
            self.all_gather.table,
            contention=self.contention_seconds_per_byte,
            copy=self.copy_seconds_per_byte,
            call=self.call_seconds,
            optimizer=self.optimizer_seconds_per_byte,
            optimizer_call=self.optimizer_call_seconds,
            shard=1 / self.num_workers,
        )

    def least_allreduce_seconds(self, num_bytes: float) -> float:
        """No way to cut so many bytes into all-reduces takes less in all."""
        return num_bytes * self.allreduce.least_rate(num_bytes)

    def least_seconds(self, num_bytes: float) -> float:
        """No way to cut so many bytes into messages takes less in all, whether they are all-reduced or split."""
        halves = self.reduce_scatter.least_rate(num_bytes) + self.all_gather.least_rate(num_bytes)
        return num_bytes * min(self.allreduce.least_rate(num_bytes), halves)
