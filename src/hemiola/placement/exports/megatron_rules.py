"""The rules by which Megatron-LM turns an order string into process groups, and which orders it refuses.

``initialize_model_parallel(order="tp-cp-ep-dp-pp")`` numbers ranks twice, in the same order, the first name fastest:

- for attention and dense layers by tp, cp, dp and pp, where dp is all that is left, experts included: ep has size one;
- for experts by tp, ep, dp and pp, where dp is what is left of the same ranks: cp has size one. So ep is folded out of cp and dp.

It refuses an order in which pp is not last, unless there is one stage or both kinds of layers have equally many data-parallel ranks, and one whose
pipelines differ between the two numberings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from hemiola.placement.matrix import Numbers

Groups = frozenset[tuple[int, ...]]
"""Over one axis in the order of its coordinates, over several in the order of ranks."""

NAMES = ("tp", "cp", "ep", "dp", "pp")
DEFAULT_ORDER = "tp-cp-ep-dp-pp"
FLAG_ORDER = "tp-cp-ep-pp-dp"
FLAG = "--use-tp-pp-dp-mapping"
"""The only other order that its command line can ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MegatronSizes:
    """The axes of a job; data-parallel ranks of attention are those of dp and ep together."""

    tp: int = 1
    cp: int = 1
    ep: int = 1
    dp: int = 1
    pp: int = 1

    @property
    def world(self) -> int:
        """All ranks."""
        return math.prod((self.tp, self.cp, self.ep, self.dp, self.pp))

    @property
    def dense(self) -> Mapping[str, int]:
        """How ranks are numbered for attention and dense layers."""
        return {"tp": self.tp, "cp": self.cp, "ep": 1, "dp": self.dp * self.ep, "pp": self.pp}

    @property
    def expert(self) -> Mapping[str, int]:
        """How they are numbered for experts, whose tensors are cut as those of attention are."""
        return {"tp": self.tp, "cp": 1, "ep": self.ep, "dp": self.dp * self.cp, "pp": self.pp}


def rank_groups(order: str, sizes: Mapping[str, int], names: tuple[str, ...]) -> Groups:
    """The groups of ranks that differ only in their coordinates of some axes; an order must name each once."""
    slowest_first = order.split("-")[::-1]
    grid = np.arange(math.prod(sizes.values())).reshape([sizes[name] for name in slowest_first])
    return groups_of_grid(grid, [slowest_first.index(name) for name in names])


def groups_of_grid(grid: Numbers, axes: Sequence[int]) -> Groups:
    """The members that differ only along some axes of a grid."""
    size = math.prod(grid.shape[axis] for axis in axes)
    rows = np.moveaxis(grid, axes, range(-len(axes), 0)).reshape(-1, size)
    return frozenset(map(tuple, (rows if len(axes) == 1 else np.sort(rows, axis=1)).tolist()))


def all_groups(order: str, sizes: MegatronSizes) -> dict[str, Groups]:
    """The groups that training communicates in, by what they are for."""
    return {
        "tp": rank_groups(order, sizes.dense, ("tp",)),
        "cp": rank_groups(order, sizes.dense, ("cp",)),
        "pp": rank_groups(order, sizes.dense, ("pp",)),
        "gradients": rank_groups(order, sizes.dense, ("dp", "cp")),
        "ep": rank_groups(order, sizes.expert, ("ep",)),
        "expert gradients": rank_groups(order, sizes.expert, ("dp",)),
    }


def why_refused(order: str, sizes: MegatronSizes) -> str | None:
    """Why Megatron ends with an error for an order; None where it takes it."""
    words = order.split("-")
    if sorted(words) != sorted(NAMES):
        return f"an order names each of {', '.join(NAMES)} once"
    if words[-1] != "pp" and sizes.pp > 1 and sizes.expert["dp"] != sizes.dense["dp"]:
        return (
            "pp is not last, and attention and experts have different data-parallel sizes: "
            f"{sizes.dense['dp']} and {sizes.expert['dp']}"
        )
    if rank_groups(order, sizes.dense, ("pp",)) != rank_groups(order, sizes.expert, ("pp",)):
        return "the pipelines of attention and of experts would be different ranks"
    return None


def accepted_orders(sizes: MegatronSizes) -> list[str]:
    """The orders that Megatron takes, those of its command line first; of orders that number ranks alike only the first."""
    orders = [DEFAULT_ORDER, FLAG_ORDER, *("-".join(words) for words in permutations(NAMES))]
    different = {_numbering(order, sizes): order for order in reversed(orders)}
    return [order for order in reversed(different.values()) if why_refused(order, sizes) is None]


def _numbering(order: str, sizes: MegatronSizes) -> tuple[str, ...]:
    """The axes that matter, in order, for both kinds of layers."""
    return tuple(
        "-".join(name for name in order.split("-") if numbered[name] > 1)
        for numbered in (sizes.dense, sizes.expert)
    )
