"""memory: the bytes that training needs on a device, by formulas that docs/planner.md states.

The first stage keeps the activations of most microbatches, and the last one has the logits; the larger of the two counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hemiola.placement.model import Model, num_elements
from hemiola.planner.compute_time import device_elements, expert_elements, stage_layers
from hemiola.planner.degrees import Degrees
from hemiola.planner.training import Training

RESERVE = 1.0846
"""What the allocator reserves for each byte that is used; fitted to the 8-GPU rows by benchmarks/training_steps.py."""
OUTSIDE_BYTES = 2 << 30
"""Of a device that no allocator of the framework has: the driver's context and the buffers of collectives."""
ELEMENT = 2
"""Bytes of an activation."""


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes of the fullest device."""

    states: float
    """Parameters, gradients and optimizer."""
    activations: float
    logits: float
    gathered: float
    """Parameters and gradients of the layers that run, whole, where they are sharded."""

    @property
    def num_bytes(self) -> float:
        """What the framework reserves."""
        return RESERVE * (self.states + self.activations + self.logits + self.gathered)

    def fits(self, memory_bytes: int) -> bool:
        """Whether a device has that much."""
        return self.num_bytes + OUTSIDE_BYTES <= memory_bytes

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "bytes": self.num_bytes,
            "states_bytes": self.states,
            "activations_bytes": self.activations,
            "logits_bytes": self.logits,
            "gathered_bytes": self.gathered,
        }


def memory_use(model: Model, training: Training, degrees: Degrees) -> MemoryUse:
    """Of the first or the last stage, whichever needs more."""
    last = degrees.pipeline - 1
    stages = [_stage(model, training, degrees, stage) for stage in {0, last}]
    return max(stages, key=lambda one: one.num_bytes)


def _stage(model: Model, training: Training, degrees: Degrees, stage: int) -> MemoryUse:
    first, last = stage == 0, stage == degrees.pipeline - 1
    elements = device_elements(model, degrees, embedding=first, head=last)
    experts = expert_elements(model, degrees)
    shards = degrees.data * degrees.context
    in_flight = min(degrees.pipeline - stage, degrees.num_microbatches(model))
    tokens = degrees.micro_batch * model.seq / degrees.context / degrees.tensor
    layers = stage_layers(model, degrees)
    kept, at_once = _layer_activations(model, training)
    if degrees.tensor > 1:
        # Between blocks the sequence is spread over the tensor axis; the inputs of both blocks and their gradients are whole.
        at_once += 4 * ELEMENT * model.hidden * degrees.tensor
    logits = (8 if training.compiled else 12) * model.vocab * tokens if last else 0.0
    return MemoryUse(
        states=_states(training, elements - experts, shards * degrees.expert)
        + _states(training, experts, shards),
        activations=tokens * (in_flight * layers * kept + at_once),
        logits=logits,
        gathered=_gathered(model, training, degrees, elements),
    )


def _states(training: Training, elements: float, shards: int) -> float:
    """Megatron keeps parameters in bf16 and gradients in float32 whole, and shards master parameters and moments; torchtitan shards everything."""
    if training.framework == "megatron":
        return elements * (2 + 4 + 12 / shards)
    return elements * 16 / shards


def _layer_activations(model: Model, training: Training) -> tuple[float, float]:
    """Bytes of a token that a layer keeps for the backward pass, and that it needs while it computes them again."""
    h, q, kv, f = model.hidden, model.query_width, model.key_width, model.ffn_width
    experts = max(1, min(model.top_k, model.experts))
    # Inputs of norms and of products, queries, keys and values before and after their rotation, and of the MLP all between its products.
    everything = ELEMENT * (4 * h + 3 * q + 3 * kv + (4 if model.gated else 2) * f * experts)
    if training.recompute == "full":
        return ELEMENT * h, everything
    if training.recompute == "selective" and training.framework == "torchtitan":
        # The input, attention, and every second product: queries, values, the first one up, and the one down.
        return ELEMENT * (2 * h + 2 * q + kv + f * experts), everything
    return everything, 0.0


def _gathered(model: Model, training: Training, degrees: Degrees, elements: float) -> float:
    """torchtitan gathers two layers at a time, and the embedding and the head; with a pipeline all of a stage stays gathered, and so do its gradients."""
    if training.framework == "megatron" or degrees.data * degrees.context == 1:
        return 0.0
    layer, table = num_elements(model.layer_shapes), model.vocab * model.hidden
    if degrees.pipeline > 1:
        return 2 * ELEMENT * elements + 4 * layer / degrees.tensor
    # The gradient of the head is there in bf16 and, for its sum, in float32.
    return (ELEMENT * (2 * layer + 2 * table) + (ELEMENT + 4) * table) / degrees.tensor
