"""Computation and memory of a step: closed forms, and what must grow or shrink with what."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemiola.placement.model import Model, num_elements
from hemiola.placement.score import rank_placements
from hemiola.planner.accelerator import ACCELERATORS
from hemiola.planner.compute_time import EFFICIENCY, compute_time
from hemiola.planner.degrees import Degrees
from hemiola.planner.memory import RESERVE, memory_use
from hemiola.planner.step_time import job_traffic, step_time
from hemiola.planner.training import Training
from hemiola.topology.presets import load_system

LLAMA_8B = Model(
    hidden=4096, layers=32, seq=8192, micro_batch=1, global_batch=64, heads=32, kv_heads=8, ffn=14336, gated=True,
    vocab=128256,
)  # fmt: skip
H100 = ACCELERATORS["hgx-h100"]
ENDLESS_MEMORY = replace(H100, memory_bandwidth=1e30)
DEGREES = st.builds(
    Degrees,
    tensor=st.sampled_from([1, 2, 4, 8]),
    pipeline=st.sampled_from([1, 2, 4]),
    data=st.sampled_from([1, 2, 4, 8]),
)
TRAININGS = st.builds(
    Training,
    framework=st.sampled_from(["megatron", "torchtitan"]),
    precision=st.sampled_from(["bf16", "float8"]),
    recompute=st.sampled_from(["none", "selective", "full"]),
    compiled=st.booleans(),
)


@pytest.mark.parametrize(
    ("sizes", "parameters"),
    [
        ({"hidden": 4096, "layers": 32, "heads": 32, "ffn": 14336}, 8.03e9),
        ({"hidden": 8192, "layers": 80, "heads": 64, "ffn": 28672}, 70.55e9),
        ({"hidden": 16384, "layers": 126, "heads": 128, "ffn": 53248}, 405.9e9),
    ],
)
def test_models_have_as_many_parameters_as_they_are_called_after(
    sizes: dict[str, int], parameters: float
) -> None:
    model = replace(LLAMA_8B, **sizes)  # type: ignore[arg-type]
    found = model.layers * num_elements(model.layer_shapes) + num_elements(model.outer_shapes)
    assert found == pytest.approx(parameters, rel=0.002)


def test_with_endless_memory_bandwidth_a_step_is_its_operations() -> None:
    training, degrees = Training(recompute="none"), Degrees(data=8)
    matrices = 32 * (4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336)
    tokens = 64 * 8192 / 8
    attention = 32 * 2 * 8192 * 4096 * 3.5
    operations = tokens * (6 * matrices + 6 * 128256 * 4096 + attention)
    found = compute_time(LLAMA_8B, training, degrees, ENDLESS_MEMORY).seconds
    assert found == pytest.approx(operations / (H100.flops * EFFICIENCY["bf16"]))


@given(training=TRAININGS, degrees=DEGREES)
def test_full_recomputation_takes_longer_and_keeps_less(training: Training, degrees: Degrees) -> None:
    full, none = replace(training, recompute="full"), replace(training, recompute="none")
    slow, fast = (compute_time(LLAMA_8B, one, degrees, H100) for one in (full, none))
    assert slow.backward > fast.backward
    assert slow.forward == fast.forward
    small, large = (memory_use(LLAMA_8B, one, degrees) for one in (full, none))
    assert small.activations < large.activations
    assert small.states == large.states


@given(training=TRAININGS, degrees=DEGREES)
def test_more_replicas_never_need_more_memory_and_share_the_work(
    training: Training, degrees: Degrees
) -> None:
    more = replace(degrees, data=degrees.data * 2)
    one, two = (memory_use(LLAMA_8B, training, each) for each in (degrees, more))
    assert two.states < one.states
    assert two.activations <= one.activations
    once, twice = (compute_time(LLAMA_8B, training, each, H100) for each in (degrees, more))
    assert twice.forward == pytest.approx(once.forward / 2)


def test_states_of_both_frameworks() -> None:
    elements = 32 * num_elements(LLAMA_8B.layer_shapes) + 2 * 128256 * 4096
    sharded = memory_use(LLAMA_8B, Training("torchtitan"), Degrees(data=8))
    assert sharded.states == pytest.approx(16 * elements / 8, rel=1e-3)
    mixed = memory_use(LLAMA_8B, Training("megatron"), Degrees(data=8))
    assert mixed.states == pytest.approx((6 + 12 / 8) * elements, rel=1e-3)
    assert mixed.num_bytes == RESERVE * (mixed.states + mixed.activations + mixed.logits + mixed.gathered)


@pytest.mark.parametrize("framework", ["megatron", "torchtitan"])
def test_a_pipeline_is_longer_by_its_bubble(framework: str) -> None:
    degrees, training = Degrees(tensor=2, pipeline=4, data=2), Training(framework)
    traffic = job_traffic(LLAMA_8B, training, degrees, H100)
    times = rank_placements(load_system("hgx-h100:2"), degrees.axes, traffic, 1).scores[0].times
    step = step_time(LLAMA_8B, training, degrees, H100, times)
    assert step.bubble == 3 / 32
    busy = step.compute.forward + step.compute.backward + step.inside
    assert step.seconds == pytest.approx(busy * (1 + 3 / 32) + step.outside + step.compute.optimizer)
    assert step.scaled(1, 1) == pytest.approx(step.seconds)
    bound = step_time(LLAMA_8B, training, degrees, H100, times, bound=True)
    assert bound.seconds <= step.seconds
