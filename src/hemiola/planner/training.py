"""Training: how a job trains its model, as far as time and memory depend on it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hemiola.errors import JobError
from hemiola.placement.model import Model

FRAMEWORKS = ("megatron", "torchtitan")
PRECISIONS = ("bf16", "float8")
RECOMPUTE = ("none", "selective", "full")


@dataclass(frozen=True, slots=True)
class Training:
    """Settings of a framework."""

    framework: str = "megatron"
    precision: str = "bf16"
    """Of the matrix products of layers; the head and attention are in bf16."""
    recompute: str = "selective"
    """Which activations are computed again in the backward pass instead of being kept."""
    compiled: bool = False
    """Whether elementwise operators are fused, by torch.compile or by fused kernels."""

    def __post_init__(self) -> None:
        for key, value, known in (
            ("framework", self.framework, FRAMEWORKS),
            ("precision", self.precision, PRECISIONS),
            ("recompute", self.recompute, RECOMPUTE),
        ):
            if value not in known:
                raise JobError(f"training.{key}: expected one of {', '.join(known)}, found {value[:40]!r}")

    def traffic_source(self, model: Model) -> str:
        """The way of training from which requests are derived."""
        if model.experts and self.framework == "torchtitan":
            raise JobError(
                "training.framework: experts are planned for megatron only; say framework: megatron"
            )
        return "moe" if model.experts else self.framework

    def model_for(self, model: Model, *, tensor: int) -> Model:
        """The model as this framework trains it: with a tensor axis, the sequence is spread over it; Megatron shards its optimizer."""
        return replace(
            model, sequence_parallel=tensor > 1 or None, zero=1 if self.framework == "megatron" else 3
        )
