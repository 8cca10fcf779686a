"""Twos: a number of ranks as levels of a machine made of pairs."""

from __future__ import annotations


def split_twos(ranks: int) -> tuple[int, ...]:
    """(m, 2, ..., 2) with m odd: 12 is (3, 2, 2), 8 is (1, 2, 2, 2)."""
    twos = (ranks & -ranks).bit_length() - 1
    return (ranks >> twos, *(2,) * twos)
