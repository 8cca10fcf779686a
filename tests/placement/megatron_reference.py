"""Megatron's numbering of ranks once more, by arithmetic on one rank at a time; from its stated rules, for tests.

The order string names tp, cp, ep, dp and pp, the first fastest. Attention and dense layers see ep as one and all other ranks as dp; experts see
cp as one and what is left as dp. Where pp is not last and there are stages, both must have the same dp; and the pipelines of both must be the
same ranks.
"""

from __future__ import annotations


def coordinates(rank: int, order: list[str], sizes: dict[str, int]) -> dict[str, int]:
    """The coordinate of a rank on every axis."""
    found = {}
    for name in order:
        found[name] = rank % sizes[name]
        rank //= sizes[name]
    return found


def groups(order: list[str], sizes: dict[str, int], over: set[str]) -> list[list[int]]:
    """Ranks whose coordinates are the same but on some axes, each group ascending."""
    world = 1
    for size in sizes.values():
        world *= size
    found: dict[tuple[int, ...], list[int]] = {}
    for rank in range(world):
        place = coordinates(rank, order, sizes)
        found.setdefault(tuple(place[name] for name in sorted(place) if name not in over), []).append(rank)
    return sorted(found.values())


def initialize(order: str, world: int, tp: int, pp: int, cp: int, ep: int) -> dict[str, list[list[int]]]:
    """The groups that it makes; AssertionError or ValueError where it refuses."""
    words = order.split("-")
    if world % (tp * pp * cp) or world % (tp * ep * pp):
        raise ValueError("the ranks do not divide")
    dense = {"tp": tp, "cp": cp, "ep": 1, "dp": world // (tp * pp * cp), "pp": pp}
    expert = {"tp": tp, "cp": 1, "ep": ep, "dp": world // (tp * ep * pp), "pp": pp}
    assert words[-1] == "pp" or pp == 1 or expert["dp"] == dense["dp"], "pp must be last"
    assert groups(words, dense, {"pp"}) == groups(words, expert, {"pp"}), "pipelines must agree"
    return {
        "tp": groups(words, dense, {"tp"}),
        "cp": groups(words, dense, {"cp"}),
        "pp": groups(words, dense, {"pp"}),
        "dp": groups(words, dense, {"dp", "cp"}),
        "ep": groups(words, expert, {"ep"}),
        "expert_dp": groups(words, expert, {"dp"}),
    }
