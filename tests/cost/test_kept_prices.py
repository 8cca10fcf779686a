"""A kept price is given only to who asks for the same plans, and a window of a price holds up to its last byte."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hemiola.algorithms.library import ALGORITHMS
from hemiola.collectives import CollectiveKind
from hemiola.compiler.compile import compile_program
from hemiola.cost.price import Price, PricedPlan, fill_price, price
from hemiola.cost.price_window import PriceWindow
from hemiola.cost.request import CollectiveRequest
from hemiola.cost.time_source import TimeSource
from plain_systems import plain_system as load_system

REQUEST = CollectiveRequest.of_system(CollectiveKind.ALLREDUCE, load_system("mi300x"))
RING = compile_program(ALGORITHMS["allreduce_ring"].build(ranks=8, in_place=True)).plan


def test_plans_with_other_messages_have_a_price_of_their_own() -> None:
    whole, small = ([PricedPlan(replace(RING, message_bytes=size))] for size in (0, 4096))
    prices = [price(REQUEST, plans).to_json() for plans in (whole, small)]
    assert prices == [fill_price(REQUEST, plans).to_json() for plans in (whole, small)]
    assert prices[0] != prices[1]


def test_a_window_of_a_price_ends_with_its_last_byte() -> None:
    sizes = np.array([0.0, 8192.0])
    first, second = (
        PriceWindow(end, name, 4.0, sizes, np.array([each, each]), 0.0, 0.0, 0.0)
        for end, name, each in ((4096.0, "first", 1.0), (1e18, "second", 2.0))
    )
    found = Price((first, second), TimeSource.REPLAYED, "nothing", 0.0)
    assert found.seconds([4092, 4096, 4100]).tolist() == [1.0, 1.0, 2.0]
