"""CollectiveKind: the collectives by name, and one table of what is known of each: who holds how much, what is added, what a bus carries.

A *share* is what one rank contributes to another; every buffer of every rank holds a whole number of shares. The **bytes** of
a collective have one meaning everywhere: the larger of what a rank holds before and after, of the rank that holds most.
That is what nccl-tests calls the size:

| collective | bytes, for n ranks |
|---|---|
| allreduce, alltonext, sendrecv | a rank's input, which is as long as its output |
| reducescatter | a rank's input, n shares |
| allgather | a rank's output, n shares |
| alltoall | a rank's input, n shares, which is as long as its output |
| broadcast, reduce | the root's buffer |
| scatter | the root's input, n shares |
| gather | the root's output, n shares |
| custom | the longest buffer of any rank |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from hemiola.errors import CollectiveError


class CollectiveKind(StrEnum):
    """Every collective; the value is its name in files and on the command line."""

    ALLREDUCE = "allreduce"
    ALLGATHER = "allgather"
    REDUCESCATTER = "reducescatter"
    ALLTOALL = "alltoall"
    ALLTONEXT = "alltonext"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    GATHER = "gather"
    SCATTER = "scatter"
    SENDRECV = "sendrecv"
    CUSTOM = "custom"

    @property
    def facts(self) -> KindFacts:
        """Its row in the table."""
        return FACTS[self]

    def buffer_shares(self, num_ranks: int) -> int:
        """Shares of the longest buffer, which is what the bytes of a collective count; not known of a custom one."""
        return max(self.facts.shares_before(num_ranks), self.facts.shares_after(num_ranks))

    def input_bytes(self, num_bytes: float, num_ranks: int) -> float:
        """The longest input, where the collective has ``num_bytes``; the inverse of `from_input_bytes`."""
        return num_bytes * self.facts.shares_before(num_ranks) / self.buffer_shares(num_ranks)

    def from_input_bytes(self, input_bytes: int, num_ranks: int) -> int:
        """The bytes of a collective whose longest input has so many: for doors at which sizes are those of inputs."""
        return input_bytes * self.buffer_shares(num_ranks) // self.facts.shares_before(num_ranks)


Shares = Callable[[int], int]
"""From the number of ranks."""


def _one(num_ranks: int) -> int:
    return 1


def _each(num_ranks: int) -> int:
    return num_ranks


@dataclass(frozen=True, slots=True)
class KindFacts:
    """What is known of a collective, whatever the algorithm."""

    shares_before: Shares
    """Shares that a rank holds before; the root where only it holds something."""
    shares_after: Shares
    """Shares that a rank holds after; the root where only it holds something."""
    bus_factor: Callable[[int], float] | None
    """The bus bandwidth is the algorithm bandwidth times this, so that it can be held against the links; see nccl-tests."""
    sums: bool = False
    """Whether data is added up: then every byte of the collective is added n - 1 times, wherever that happens."""
    rooted: bool = False
    """Whether one rank alone gives or takes: the root, or the two ends of a sendrecv."""
    can_be_in_place: bool = True
    """Whether input and output may be the same memory, or one a window of the other."""
    called_in_place: bool = True
    """Whether training calls it so where it can; that is the form that is priced."""

    def added_bytes(self, num_bytes: float, num_ranks: int) -> float:
        """Additions of all ranks together, in bytes of result."""
        return (num_ranks - 1) * num_bytes if self.sums else 0.0


def _of_others(num_ranks: int) -> float:
    return (num_ranks - 1) / num_ranks


def _whole(num_ranks: int) -> float:
    return 1.0


FACTS: Mapping[CollectiveKind, KindFacts] = {
    CollectiveKind.ALLREDUCE: KindFacts(_one, _one, lambda n: 2 * _of_others(n), sums=True),
    CollectiveKind.ALLGATHER: KindFacts(_one, _each, _of_others),
    CollectiveKind.REDUCESCATTER: KindFacts(_each, _one, _of_others, sums=True),
    CollectiveKind.ALLTOALL: KindFacts(_each, _each, _of_others, called_in_place=False),
    CollectiveKind.ALLTONEXT: KindFacts(_one, _one, _whole, can_be_in_place=False),
    CollectiveKind.BROADCAST: KindFacts(_one, _one, _whole, rooted=True),
    CollectiveKind.REDUCE: KindFacts(_one, _one, _whole, sums=True, rooted=True),
    CollectiveKind.GATHER: KindFacts(_one, _each, _of_others, rooted=True),
    CollectiveKind.SCATTER: KindFacts(_each, _one, _of_others, rooted=True),
    CollectiveKind.SENDRECV: KindFacts(_one, _one, _whole, rooted=True, can_be_in_place=False),
    CollectiveKind.CUSTOM: KindFacts(_one, _one, None, sums=True),
}
"""One row for each collective; everybody reads this one."""


def parse_kind(text: str) -> CollectiveKind:
    """The collective of a name, also written all_reduce, all-reduce or AllReduce; an unknown one raises an error that suggests what is spelt like it."""
    try:
        return CollectiveKind(text)
    except ValueError:
        return _respelt(text)


def _respelt(text: str) -> CollectiveKind:
    """Apart, so that calls of collectives, which all come by here, pay nothing for other spellings."""
    with suppress(ValueError):
        return CollectiveKind(re.sub("[-_]", "", text).lower())
    near = get_close_matches(text[:40], list(CollectiveKind), n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(CollectiveKind)}"
    raise CollectiveError(f"there is no collective '{text[:40]}'; {hint}")
