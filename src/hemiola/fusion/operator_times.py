"""OperatorTimes: the measured seconds of operators that run alone, by what they are."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hemiola.errors import FusionError
from hemiola.fusion.graph import OpGraph


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """Of one signature."""

    seconds: float
    """The median over processes."""
    spread: float
    """Half of the distance between the fastest and the slowest process, relative to the median."""


@dataclass(frozen=True, slots=True)
class OperatorTimes:
    """Of all signatures of a graph, on one device."""

    by_signature: Mapping[str, OperatorTime]

    def seconds(self, graph: OpGraph) -> npt.NDArray[np.float64]:
        """Of every operator of a graph, in order."""
        missing = next((one for one in graph.operators if one.signature not in self.by_signature), None)
        if missing is not None:
            raise FusionError(
                f"operator {missing.name!r} of graph {graph.name!r} was not measured; profile this graph on this device"
            )
        return np.array([self.by_signature[one.signature].seconds for one in graph.operators])

    @property
    def noise(self) -> float:
        """The median spread: times that differ by less are the same."""
        return (
            statistics.median(one.spread for one in self.by_signature.values()) if self.by_signature else 0.0
        )


def summarize(seconds: list[float]) -> OperatorTime:
    """What several processes found."""
    middle = statistics.median(seconds)
    return OperatorTime(middle, (max(seconds) - min(seconds)) / 2 / middle)
