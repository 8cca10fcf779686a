"""State: what every device holds, between two steps of a program.

The data of k devices is cut into k chunks. What a device holds is a k by k bit matrix, kept as one integer: bit
``r * k + c`` says that it holds chunk r with the contribution of device c folded in. Which programs are valid
depends only on the number of factors, so states are only ever made for factors of two each, k = 2^n, and one
matrix has 4^n bits however many devices the machine has.
"""

from __future__ import annotations

from hemiola.collectives import CollectiveKind
from hemiola.synthesis.program import STEPS

State = tuple[int, ...]
"""The matrix of every device."""


REDUCTIONS = STEPS
"""What programs are found for.

All-reduce: every device starts with its own contributions and ends with all sums. Reduce-scatter: device d ends with the sum of
chunk d, at least. All-gather: device d starts with chunk d, complete, and ends with all. Reduce: the first device ends with
all sums. Broadcast: the first device starts with everything, the others with nothing, and all end with all.
"""


def row_ones(k: int, row: int) -> int:
    """A matrix whose one row is full."""
    return ((1 << k) - 1) << (row * k)


def column_ones(k: int, column: int) -> int:
    """A matrix whose one column is full."""
    return sum(1 << (row * k + column) for row in range(k))


def full(k: int) -> int:
    """A matrix of ones."""
    return (1 << (k * k)) - 1


def start_state(request: CollectiveKind, k: int) -> State:
    """What devices hold before the first step."""
    if request is CollectiveKind.ALLGATHER:
        return tuple(row_ones(k, device) for device in range(k))
    if request is CollectiveKind.BROADCAST:
        return (full(k), *([0] * (k - 1)))
    return tuple(column_ones(k, device) for device in range(k))


def is_goal(request: CollectiveKind, state: State) -> bool:
    """Whether a request is fulfilled."""
    k = len(state)
    if request is CollectiveKind.REDUCE:
        return state[0] == full(k)
    if request is CollectiveKind.REDUCESCATTER:
        return all(matrix & row_ones(k, device) == row_ones(k, device) for device, matrix in enumerate(state))
    return all(matrix == full(k) for matrix in state)


class Rows:
    """Which rows of a matrix are not empty, worked out once for each matrix."""

    def __init__(self, k: int) -> None:
        self.k = k
        self._masks = [row_ones(k, row) for row in range(k)]
        self._known: dict[int, int] = {}

    def of(self, matrix: int) -> int:
        """The rows, as bits."""
        known = self._known.get(matrix)
        if known is None:
            known = sum(1 << row for row, mask in enumerate(self._masks) if matrix & mask)
            self._known[matrix] = known
        return known

    def parts(self, matrix: int, num_parts: int) -> tuple[int, ...]:
        """The matrix cut into contiguous parts of its rows, equally many in each."""
        held = [mask for mask in self._masks if matrix & mask]
        share = len(held) // num_parts
        return tuple(matrix & sum(held[part * share : (part + 1) * share]) for part in range(num_parts))
