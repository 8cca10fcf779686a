"""Levels: which exchange each level of a hierarchical algorithm uses."""

from __future__ import annotations

from math import prod

from hemiola.algorithms.exchanges import EXCHANGES, Exchange


def exchanges_of(levels: tuple[int, ...], inside: str, across: str) -> list[Exchange]:
    """``across`` for the outermost level, ``inside`` for all others."""
    return [EXCHANGES[across], *[EXCHANGES[inside]] * (len(levels) - 1)]


def steps_over(levels: tuple[int, ...], inside: str, across: str, *, packed: bool) -> int:
    """Dependent messages of one exchange in every level, one level after another.

    Unless ``packed``, only the innermost ranks' blocks touch; those of outer levels lie between each other.
    """
    exchanges = exchanges_of(levels, inside, across)
    return sum(
        exchange.steps(size, packed or prod(levels[level + 1 :]) == 1)
        for level, (exchange, size) in enumerate(zip(exchanges, levels, strict=True))
    )
