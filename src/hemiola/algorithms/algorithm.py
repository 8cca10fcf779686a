"""Algorithm: a row of the library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

from hemiola.algorithms.cost import CostCard
from hemiola.collectives import CollectiveKind
from hemiola.language.program import Program


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A collective algorithm: how it is built, what it costs, and for which parameters it exists."""

    name: str
    kind: CollectiveKind
    summary: str
    build: Callable[..., Program]
    """Keyword parameters, ``ranks`` among them, to a traced program."""
    cost: Callable[..., CostCard]
    """Takes those of ``build``'s parameters that matter for the cost."""
    shapes: Callable[..., str | None]
    """Takes those of ``build``'s parameters that matter for the shape; None, or why it cannot be built."""

    @classmethod
    def of(
        cls,
        build: Callable[..., Program],
        cost: Callable[..., CostCard],
        shapes: Callable[..., str | None],
    ) -> Algorithm:
        """The row of a builder: its name begins with its collective, its docstring with its summary."""
        name, summary = build.__name__, (build.__doc__ or "").partition("\n")[0]
        return cls(name, CollectiveKind(name.partition("_")[0]), summary, build, cost, shapes)

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """The builder's parameters by name."""
        return signature(self.build).parameters

    def card(self, **parameters: Any) -> CostCard:
        """The cost card for these parameters of ``build``; those left out have their defaults."""
        return self.cost(**self._chosen(self.cost, parameters))

    def refusal(self, **parameters: Any) -> str | None:
        """Why it cannot be built with these parameters of ``build``, or None."""
        return self.shapes(**self._chosen(self.shapes, parameters))

    def _chosen(self, function: Callable[..., object], parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters that ``function`` takes, with the builder's defaults for those not given."""
        known = {name: p.default for name, p in self.parameters.items() if p.default is not Parameter.empty}
        known.update(parameters)
        return {name: known[name] for name in signature(function).parameters if name in known}
