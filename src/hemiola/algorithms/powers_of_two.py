"""``split_powers_of_two``: a number of ranks as the levels of a machine made of pairs."""

from __future__ import annotations


def split_powers_of_two(ranks: int) -> tuple[int, ...]:
    """(m, 2, ..., 2) with m odd: 12 is (3, 2, 2), 8 is (1, 2, 2, 2)."""
    exponent = (ranks & -ranks).bit_length() - 1
    return (ranks >> exponent, *(2,) * exponent)
