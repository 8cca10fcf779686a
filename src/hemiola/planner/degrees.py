"""Degrees: how many ways each kind of parallelism divides a job, and all degrees that a job could have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hemiola.placement.axes import Axes, Axis
from hemiola.placement.model import Model
from hemiola.placement.roles import roles_of

LEAST_SEQUENCE = 4096
"""Tokens of a sequence that a device of the context axis has at least, where degrees are searched."""
MICRO_BATCHES = (1, 2, 4, 8, 16)
"""Sequences of a microbatch that are tried where the job does not say it."""


@dataclass(frozen=True, slots=True)
class Degrees:
    """The sizes of the axes of a job, and the sequences of a microbatch."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    context: int = 1
    expert: int = 1
    micro_batch: int = 1

    @property
    def replicas(self) -> int:
        """That take different sequences; experts are spread over some of them."""
        return self.data * self.expert

    def num_microbatches(self, model: Model) -> int:
        """That each replica takes in a step."""
        return model.global_batch // (self.micro_batch * self.replicas)

    @property
    def axes(self) -> Axes:
        """As axes, in Megatron's order, slowest first; axes of one device are left out."""
        sizes = (
            ("pp", self.pipeline),
            ("dp", self.data),
            ("ep", self.expert),
            ("cp", self.context),
            ("tp", self.tensor),
        )
        return tuple(Axis(name, size) for name, size in sizes if size > 1) or (Axis("dp", 1),)

    @property
    def text(self) -> str:
        """For people: tp8 pp4 dp4."""
        sizes = {
            "tp": self.tensor,
            "pp": self.pipeline,
            "cp": self.context,
            "ep": self.expert,
            "dp": self.data,
        }
        return " ".join(f"{name}{size}" for name, size in sizes.items() if size > 1) or "one device"

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "tp": self.tensor,
            "pp": self.pipeline,
            "dp": self.data,
            "cp": self.context,
            "ep": self.expert,
            "micro_batch": self.micro_batch,
        }


def degrees_of(axes: Axes, micro_batch: int) -> Degrees:
    """The degrees that axes stand for, by their names."""
    roles = roles_of(axes)
    sizes = {axis.name: axis.size for axis in axes}
    found = {role: sizes[name] for role, name in roles.items()}
    return Degrees(
        found.get("tp", 1),
        found.get("pp", 1),
        found.get("dp", 1),
        found.get("cp", 1),
        found.get("ep", 1),
        micro_batch,
    )


def all_degrees(model: Model, num_devices: int, micro_batch: int | None) -> Iterator[Degrees]:
    """Every combination that multiplies to the devices and keeps the rules of `why_not`.

    Microbatches are as given, or all powers of two up to 16 that divide the batch.
    """
    sizes = (micro_batch,) if micro_batch else MICRO_BATCHES
    for tensor in _divisors(num_devices):
        for pipeline in _divisors(num_devices // tensor):
            left = num_devices // tensor // pipeline
            for context in _divisors(left):
                if context > 1 and model.seq // context < LEAST_SEQUENCE:
                    continue
                for expert in _divisors(left // context) if model.experts else (1,):
                    for size in sizes:
                        data = left // context // expert
                        found = Degrees(tensor, pipeline, data, context, expert, size)
                        if why_not(found, model) is None:
                            yield found


def why_not(degrees: Degrees, model: Model) -> str | None:
    """The rule of frameworks that refuses degrees for a model, or None."""
    tp, pp, cp, ep = degrees.tensor, degrees.pipeline, degrees.context, degrees.expert
    kv_heads = model.kv_heads or model.heads
    if model.heads % tp:
        return f"{model.heads} heads are not a multiple of tp={tp}"
    if kv_heads % tp and tp % kv_heads:
        return f"{kv_heads} heads of keys and values and tp={tp} do not divide each other"
    if pp > model.layers:
        return f"{model.layers} layers are fewer than pp={pp} stages"
    if model.seq % (2 * cp if cp > 1 else 1) or (model.seq // cp) % tp:
        return f"a sequence of {model.seq} cannot be spread over cp={cp} and tp={tp}"
    if ep > 1 and (not model.experts or model.experts % ep):
        return f"{model.experts} experts are not a multiple of ep={ep}"
    if model.global_batch % (degrees.micro_batch * degrees.replicas):
        return (
            f"a batch of {model.global_batch} is not a multiple of {degrees.micro_batch} sequences on each of"
            f" {degrees.replicas} replicas"
        )
    return None


def _divisors(number: int) -> list[int]:
    return [one for one in range(1, number + 1) if number % one == 0]
