"""GroupTimes: what a search asks for the seconds of groups of operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hemiola.fusion.plan import Group

Seconds = npt.NDArray[np.float64]


class GroupTimes(Protocol):
    """The seconds of groups of operators of one graph, each group compiled as one function."""

    def seconds(self, groups: Sequence[Group]) -> Seconds:
        """Of each group, in order; asking for many at once is cheaper, and asking again costs a look-up."""
        ...
