"""Work: operations and bytes of memory of one token in one layer and in the head, forward.

Matrix products take two operations for each parameter and token. Attention is causal, so half of the scores are computed. Elementwise operators
are bound by memory: what counts is how often each value is read and written, which depends on whether they are fused.
"""

from __future__ import annotations

from dataclasses import dataclass

from hemiola.placement.model import Model, num_elements
from hemiola.planner.training import Training

BACKWARD_MATMUL = 2.0
"""Operations of the backward pass for each of the forward pass, of a matrix product: of its input and of its weights."""
BACKWARD_ATTENTION = 2.5
"""The same of attention that keeps no scores: five products for two."""
CAST_BYTES = 5
"""To bring an element to eight bits: it is read for the largest value, read again, and written."""


@dataclass(frozen=True, slots=True)
class TokenWork:
    """Of one token, forward, whole in the tensor axis."""

    matmul: float
    """Operations of matrix products of a layer, which run in the precision of the job."""
    attention: float
    """Operations of attention of a layer."""
    elementwise: float
    """Bytes of elementwise operators of a layer."""
    head: float
    """Operations of the head."""
    loss: float
    """Bytes of the loss, both passes."""


def token_work(model: Model, training: Training) -> TokenWork:
    """What one token costs."""
    h, q, kv, f = model.hidden, model.query_width, model.key_width, model.ffn_width
    matrices = [num_elements(tuple(one for one in shapes if len(one) > 1)) for shapes in _blocks(model)]
    experts = max(1, min(model.top_k, model.experts))
    up = 2 * f if model.gated else f
    if training.compiled:
        # Two norms and two sums, each a read and a write; rotation of queries and keys; the activation.
        traffic = 16 * h + 4 * (q + kv) + 2 * (up + f) * experts
    else:
        # Norms and rotation convert to float32 and back, operator by operator; the activation and its product are two operators.
        traffic = 84 * h + 20 * (q + kv) + (10 if model.gated else 4) * f * experts
    if training.precision == "float8":
        traffic += CAST_BYTES * (2 * h + q + f * experts)
    return TokenWork(
        matmul=2.0 * (matrices[0] + matrices[1] * experts),
        attention=2.0 * model.seq * q,
        elementwise=float(traffic),
        head=2.0 * model.vocab * h,
        loss=(8.0 if training.compiled else 28.0) * model.vocab,
    )


def forward_again(training: Training) -> tuple[float, float, float]:
    """Shares of a layer's products, attention and elementwise operators that the backward pass computes again.

    Selective recomputation is the scores of attention in Megatron, which fused attention never keeps; in torchtitan it
    is every second matrix product and all elementwise operators.
    """
    if training.recompute == "full":
        return 1.0, 1.0, 1.0
    if training.recompute == "selective" and training.framework == "torchtitan":
        return 0.5, 0.0, 1.0
    return 0.0, 0.0, 0.0


def _blocks(model: Model) -> tuple[tuple[tuple[int, ...], ...], ...]:
    return model.attention_shapes, model.mlp_shapes
