"""CostCard: what an algorithm costs, in exact numbers that do not depend on a machine."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class CostCard:
    """Steps and bytes of one algorithm at one size. Bytes are fractions of S, the input of one rank (of the
    root, where only the root has one)."""

    steps: int
    """The longest chain of messages each of which carries data that the one before it brought."""
    sent: Fraction
    """Bytes that leave the rank that sends most."""
    received: Fraction
    """Bytes that reach the rank that receives most."""
    total: Fraction
    """Bytes that all ranks send together."""

    @classmethod
    def even(cls, *, ranks: int, steps: int, sent: Fraction) -> CostCard:
        """The card of an algorithm in which every rank sends and receives the same."""
        return cls(steps, sent, sent, sent * ranks)

    def __str__(self) -> str:
        return (
            f"{self.steps} steps; the busiest rank sends {self.sent} S and receives {self.received} S; "
            f"all together {self.total} S"
        )


def share_of_others(ranks: int) -> Fraction:
    """(n - 1) / n: what a reduce-scatter or an all-to-all must move at least."""
    return Fraction(ranks - 1, ranks)
