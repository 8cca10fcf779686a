"""Price: a table of replays that answers for every size."""

from __future__ import annotations

import random

import numpy as np
import pytest

import hemiola
from hemiola.collectives import CollectiveKind
from hemiola.cost.price import Price, PricedPlan, fill_price
from hemiola.cost.replay_seconds import replay_seconds
from hemiola.cost.request import CollectiveRequest
from hemiola.cost.time_source import TimeSource
from hemiola.units import LARGEST
from plain_systems import plain_system as load_system

MOST_ERROR = 0.02


def priced(system: str, kind: str) -> tuple[CollectiveRequest, list[PricedPlan], Price]:
    """A request with the plans that tune finds for it, and its price."""
    tuned = hemiola.tune(kind, load_system(system), [1 << 14, 1 << 18, 1 << 22, 1 << 26])
    ends = [window.max_bytes for window in tuned.windows[:-1]]
    plans = [
        PricedPlan(window.chosen.plan, end)
        for window, end in zip(tuned.windows, [*ends, LARGEST], strict=True)
    ]
    return tuned.request, plans, fill_price(tuned.request, plans)


@pytest.mark.parametrize("kind", ["allreduce", "allgather", "reducescatter", "alltoall"])
@pytest.mark.parametrize("system", ["dgx-a100:2", "mi300x", "2x4"])
def test_a_price_is_near_the_replay_at_any_multiple(system: str, kind: str) -> None:
    request, plans, price = priced(system, kind)
    assert (price.source, price.constants) == (TimeSource.REPLAYED, system)
    seed = random.Random(f"{system} {kind}")
    for _ in range(12):
        wanted = 2 ** seed.uniform(12, 29)
        number = next(at for at, one in enumerate(plans) if wanted <= one.max_bytes)
        unit = price.windows[number].unit_bytes
        size = max(1, int(wanted // unit)) * unit
        if size <= plans[number].max_bytes and (number == 0 or size > plans[number - 1].max_bytes):
            replayed = replay_seconds(plans[number].plan, size, request)
            assert price(size) == pytest.approx(replayed, rel=MOST_ERROR)


def test_elements_left_over_are_a_stated_extra_term() -> None:
    request, plans, price = priced("dgx-a100:2", "allreduce")
    window, plan = price.windows[-1], plans[-1].plan
    whole = window.unit_bytes * ((1 << 27) // int(window.unit_bytes))
    more = whole + request.num_ranks * 2
    assert price(more) - price(whole) == pytest.approx(window.remainder_seconds, abs=1e-12)
    assert price(more) == pytest.approx(replay_seconds(plan, more, request), rel=MOST_ERROR)


def test_small_data_that_leaves_elements_over_is_padded() -> None:
    _, _, price = priced("dgx-a100:2", "allreduce")
    unit = price.windows[0].unit_bytes
    assert price(5 * unit + 4) == price(6 * unit)


def test_a_price_of_many_sizes_is_that_of_each() -> None:
    _, _, price = priced("2x4", "allreduce")
    sizes = np.random.default_rng(1).integers(0, 1 << 28, 1000)
    assert price.seconds(sizes).tolist() == [price(size) for size in sizes.tolist()]
    assert price(0) == 0.0


def test_a_kept_price_is_the_same(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tuned = hemiola.tune("allreduce", "2x4", [1 << 16, 1 << 22])
    first, again = hemiola.price(tuned), hemiola.price(tuned)
    assert first.to_json() == again.to_json()
    other = hemiola.tune("allreduce", "4x2", [1 << 16, 1 << 22])
    assert hemiola.price(other).to_json() != first.to_json()


def test_prices_go_on_in_a_line_beyond_their_table() -> None:
    request = CollectiveRequest.of_system(CollectiveKind.ALLREDUCE, load_system("dgx-a100"))
    tuned = hemiola.tune("allreduce", request.system, [1 << 26])
    price = fill_price(request, [PricedPlan(tuned.plan(1 << 26))])
    end = float(price.windows[0].sizes[-1])
    assert price(4 * end) == pytest.approx(4 * price(end), rel=0.02)
