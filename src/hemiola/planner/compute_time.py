"""compute_time: how long the devices of the slowest stage compute in a step, by a roofline with one fitted constant per precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hemiola.placement.model import Model, num_elements
from hemiola.planner.accelerator import Accelerator
from hemiola.planner.degrees import Degrees
from hemiola.planner.training import Training
from hemiola.planner.work import BACKWARD_ATTENTION, BACKWARD_MATMUL, forward_again, token_work

EFFICIENCY: Mapping[str, float] = {"bf16": 0.4245, "float8": 0.3248}
"""The share of the data sheet's operations that matrix products reach; fitted to three steps of an 8B model on eight H100 by
benchmarks/training_steps.py, the only constants here that were."""
MEMORY_SHARE = 0.8
"""Of the data sheet's memory bandwidth, which elementwise operators reach."""
OPTIMIZER_BYTES = 28
"""Adam reads parameter, gradient and both moments in float32, and writes all but the gradient."""


@dataclass(frozen=True, slots=True)
class ComputeTime:
    """Seconds of one device in a step, without waiting."""

    forward: float
    backward: float
    optimizer: float

    @property
    def seconds(self) -> float:
        """Of all three."""
        return self.forward + self.backward + self.optimizer


def stage_layers(model: Model, degrees: Degrees) -> int:
    """Layers of the slowest stage; stages need not be even."""
    return -(-model.layers // degrees.pipeline)


def compute_time(
    model: Model,
    training: Training,
    degrees: Degrees,
    device: Accelerator,
    efficiency: Mapping[str, float] = EFFICIENCY,
) -> ComputeTime:
    """Of all microbatches of a step, on the last stage, which has the head."""
    work, again = token_work(model, training), forward_again(training)
    tokens = model.global_batch * model.seq / degrees.replicas / degrees.context / degrees.tensor
    layers = stage_layers(model, degrees)
    products = device.peak(training.precision) * efficiency[training.precision]
    plain = device.flops * efficiency["bf16"]
    memory = device.memory_bandwidth * MEMORY_SHARE

    def layer(matmul: float, attention: float, elementwise: float) -> float:
        return (
            matmul * work.matmul / products
            + attention * work.attention / plain
            + elementwise * work.elementwise / memory
        )

    forward = layers * layer(1, 1, 1) + work.head / plain
    backward = layers * layer(BACKWARD_MATMUL + again[0], BACKWARD_ATTENTION + again[1], 2 + again[2])
    backward += BACKWARD_MATMUL * work.head / plain + work.loss / memory
    updated = optimizer_elements(model, degrees)
    return ComputeTime(tokens * forward, tokens * backward, updated * OPTIMIZER_BYTES / memory)


def device_elements(model: Model, degrees: Degrees, *, embedding: bool, head: bool) -> float:
    """Parameters of a device of a stage before data parallelism shards them; experts are spread over their axis."""
    dense = num_elements(model.attention_shapes if model.experts else model.layer_shapes)
    tables = (int(embedding) + int(head)) * model.vocab * model.hidden
    return (stage_layers(model, degrees) * dense + tables) / degrees.tensor + expert_elements(model, degrees)


def expert_elements(model: Model, degrees: Degrees) -> float:
    """Parameters of the experts of a device; each is on one coordinate of the expert axis."""
    each = num_elements(model.mlp_shapes) * model.experts
    return stage_layers(model, degrees) * each / degrees.expert / degrees.tensor


def optimizer_elements(model: Model, degrees: Degrees) -> float:
    """Parameters that the optimizer of a device updates; both frameworks shard it over all replicas of a parameter."""
    whole = device_elements(model, degrees, embedding=degrees.pipeline == 1, head=True)
    experts = expert_elements(model, degrees)
    return ((whole - experts) / degrees.expert + experts) / (degrees.data * degrees.context)
