"""Tables of messages: from prices, from measurements, and the least that any cut of bytes takes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hemiola
from fusion.steps import collective_times, message_times, unhurried
from hemiola.cost.price import Price, PricedPlan, fill_price
from hemiola.cost.price_window import PriceWindow
from hemiola.cost.time_source import TimeSource
from hemiola.errors import FusionError
from hemiola.fusion.collective_times import CollectiveTimes, MessageTimes
from hemiola.units import LARGEST


def test_a_price_with_a_jump_between_its_windows_is_kept() -> None:
    low = PriceWindow(1000.0, "small", 10.0, np.array([10.0, 500.0]), np.array([1.0, 2.0]), 0.01, 0.5, 0.0)
    high = PriceWindow(
        float(LARGEST), "large", 40.0, np.array([40.0, 4000.0]), np.array([3.0, 30.0]), 0.005, 0.5, 0.0
    )
    price = Price((low, high), TimeSource.REPLAYED, "made", 0.0)
    times = MessageTimes.of_price(price)
    for size in (10, 250, 500, 730, 1000, 1040, 2000, 4000, 12000, 400000):
        assert times(size) == pytest.approx(price(size)), size


def test_the_price_of_a_tuned_collective_is_the_table_at_whole_units() -> None:
    tuned = hemiola.tune("allreduce", "2x4", [1 << 14, 1 << 22])
    ends = [*(window.max_bytes for window in tuned.windows[:-1]), LARGEST]
    plans = [PricedPlan(window.chosen.plan, end) for window, end in zip(tuned.windows, ends, strict=True)]
    price = fill_price(tuned.request, plans)
    times = CollectiveTimes.of_prices(price, price, price, 8).allreduce
    for power in range(12, 30):
        window = price.windows[int(np.searchsorted(price._ends, 2.0**power))]
        size = np.ceil(2**power / window.unit_bytes) * window.unit_bytes
        assert times(size) == pytest.approx(price(size), rel=1e-9)


def test_measured_times_are_medians_that_do_not_fall() -> None:
    times = MessageTimes.measured({100: [3.0, 1.0, 2.0], 200: [1.5], 400: [6.0]})
    assert [times(size) for size in (50, 100, 200, 300, 500)] == [2.0, 2.0, 2.0, 4.0, 8.0]


def test_a_line_is_a_latency_and_a_rate() -> None:
    times = CollectiveTimes.line(2.0, 0.5, 4)
    assert (times.allreduce(0), times.allreduce(10)) == (0.0, 7.0)
    assert times.reduce_scatter(10) + times.all_gather(10) == times.allreduce(10)
    assert times.least_allreduce_seconds(10) == pytest.approx(7.0), "in one message"


@pytest.mark.parametrize(
    ("sizes", "seconds", "slope", "said"),
    [((), (), 0.0, "at least one"), ((1.0, 1.0), (1.0, 1.0), 0.0, "ascend"), ((1.0,), (-1.0,), 0.0, "below")],
)
def test_what_is_no_table_is_refused(
    sizes: tuple[float, ...], seconds: tuple[float, ...], slope: float, said: str
) -> None:
    with pytest.raises(FusionError, match=said):
        MessageTimes(sizes, seconds, slope)


@unhurried
@given(message_times(), st.lists(st.integers(1, 300), min_size=1, max_size=6))
def test_no_cut_of_bytes_takes_less_than_the_least_rate(times: MessageTimes, cut: list[int]) -> None:
    total = float(sum(cut))
    assert sum(times(size) for size in cut) >= total * times.least_rate(total) * (1 - 1e-12)


@unhurried
@given(collective_times(), st.lists(st.tuples(st.integers(1, 300), st.booleans()), min_size=1, max_size=6))
def test_no_choice_of_forms_takes_less_than_the_least(
    times: CollectiveTimes, cut: list[tuple[int, bool]]
) -> None:
    taken = sum(
        times.reduce_scatter(size) + times.all_gather(size) if split else times.allreduce(size)
        for size, split in cut
    )
    assert taken >= times.least_seconds(float(sum(size for size, _ in cut))) * (1 - 1e-12)
