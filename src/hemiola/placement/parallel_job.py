"""ParallelJob: a model and the axes that divide it, by their roles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hemiola.collectives import CollectiveKind
from hemiola.errors import PlacementError
from hemiola.placement.model import Model
from hemiola.placement.traffic import TrafficRequest


@dataclass(frozen=True, slots=True)
class ParallelJob:
    """What requests are derived from."""

    model: Model
    roles: Mapping[str, str]
    """The axis of each role."""
    sizes: Mapping[str, int]
    """Of axes by name."""

    def size(self, *roles: str) -> int:
        """Of the axes of some roles together; a role without an axis counts 1."""
        product = 1
        for role in roles:
            product *= self.sizes[self.roles[role]] if role in self.roles else 1
        return product

    @property
    def num_microbatches(self) -> int:
        """Of one replica in a step; experts are spread over replicas."""
        return self.model.num_microbatches(self.size("dp", "ep"))

    def only(self, role: str, source: str) -> None:
        """Refuse axes that this way of training does not have."""
        others = [name for other, name in self.roles.items() if other != role]
        if others or role not in self.roles:
            found = ", ".join(others) or "none"
            raise PlacementError(
                f"traffic.from: {source} has one axis, called data, dp or fsdp; found {found}: take from: megatron"
            )

    def divided(self, name: str, amount: int, role: str) -> int:
        """An amount over the devices of a role, which must divide it."""
        size = self.size(role)
        if amount % size:
            raise PlacementError(
                f"traffic.{name}: {amount} is not a multiple of {self.roles[role]}={size}, which divides it"
            )
        return amount // size

    def request(
        self,
        collective: CollectiveKind,
        roles: tuple[str, ...],
        input_bytes: int,
        per_step: float,
        overlaps: str,
        name: str,
    ) -> TrafficRequest:
        """A request over the axes of some roles, of which a member has so many bytes before it.

        It overlaps only where computation is known.
        """
        over = tuple(self.roles[role] for role in roles if role in self.roles)
        hidden = overlaps if self.model.flops else ""
        num_bytes = collective.from_input_bytes(int(input_bytes), self.size(*roles))
        return TrafficRequest(collective, over, num_bytes, float(per_step), hidden, name)
