"""Degrees: what is enumerated multiplies to the devices and keeps the rules of frameworks."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemiola.placement.axes import parse_axes
from hemiola.placement.model import Model
from hemiola.planner.degrees import Degrees, all_degrees, degrees_of, why_not

LLAMA_70B = Model(
    hidden=8192, layers=80, seq=8192, micro_batch=1, global_batch=512, heads=64, kv_heads=8, ffn=28672, gated=True
)  # fmt: skip


@given(
    num_devices=st.integers(1, 96),
    heads=st.sampled_from([1, 6, 8, 12, 64]),
    batch=st.integers(1, 64),
    experts=st.sampled_from([0, 4, 6]),
)
def test_degrees_multiply_to_the_devices_and_divide_the_model(
    num_devices: int, heads: int, batch: int, experts: int
) -> None:
    model = Model(
        hidden=heads * 64, layers=6, seq=8192, micro_batch=1, global_batch=batch, heads=heads, experts=experts
    )
    found = list(all_degrees(model, num_devices, None))
    assert len(set(found)) == len(found)
    for one in found:
        assert math.prod(axis.size for axis in one.axes) == num_devices
        assert heads % one.tensor == 0
        assert one.pipeline <= 6
        assert one.micro_batch * one.replicas * one.num_microbatches(model) == batch
        assert one.expert == 1 or experts % one.expert == 0


def test_all_combinations_of_a_dense_model_are_there() -> None:
    found = {
        (one.tensor, one.pipeline, one.data) for one in all_degrees(LLAMA_70B, 16, 1) if one.context == 1
    }
    powers = [1, 2, 4, 8, 16]
    assert found == {(tp, pp, dp) for tp in powers for pp in powers for dp in powers if tp * pp * dp == 16}


def test_a_sequence_is_cut_only_into_long_parts() -> None:
    found = {one.context for one in all_degrees(LLAMA_70B, 16, 1)}
    assert found == {1, 2}, "8,192 tokens in parts of 4,096 at least"


@pytest.mark.parametrize(
    ("degrees", "reason"),
    [
        (Degrees(tensor=3), "64 heads are not a multiple of tp=3"),
        (Degrees(pipeline=81), "fewer than pp=81"),
        (Degrees(data=3), "not a multiple of 1 sequences on each of 3 replicas"),
        (Degrees(expert=2), "0 experts are not a multiple of ep=2"),
        (Degrees(context=3), "cannot be spread over cp=3"),
    ],
)
def test_rules_are_named(degrees: Degrees, reason: str) -> None:
    assert reason in str(why_not(degrees, LLAMA_70B))


def test_axes_are_read_by_their_names_and_written_in_megatrons_order() -> None:
    degrees = degrees_of(parse_axes("tensor=8,data=4,pipe=2"), 1)
    assert degrees == Degrees(tensor=8, data=4, pipeline=2)
    assert [axis.name for axis in degrees.axes] == ["pp", "dp", "tp"]
    assert degrees.text == "tp8 pp2 dp4"
