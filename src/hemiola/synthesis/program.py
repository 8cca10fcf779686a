"""ReductionProgram: a list of steps, each one collective over groups that a hierarchy gives.

A hierarchy of n factors, outermost first, has n + 1 slice levels: 0 is the whole, level e is what is left when the digits of
the first e factors are fixed, and n is a single device. A step names a slice level, a form and a collective:

    reducescatter(1, InsideGroup); allreduce(1, Parallel(0)); allgather(1, InsideGroup)

is the hierarchical all-reduce of two levels: reduce-scatter inside each unit of level 1, all-reduce between the i-th
devices of these units, all-gather inside each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from hemiola.collectives import CollectiveKind
from hemiola.errors import ReductionError

STEPS = (
    CollectiveKind.ALLREDUCE,
    CollectiveKind.REDUCESCATTER,
    CollectiveKind.ALLGATHER,
    CollectiveKind.REDUCE,
    CollectiveKind.BROADCAST,
)
"""What a step can be; tables number them in this order."""


class Form(Enum):
    """Which devices of a slice form a group."""

    INSIDE = "InsideGroup"
    """All devices of each instance."""
    PARALLEL = "Parallel"
    """Inside each instance of the ancestor, the i-th devices of its slices, for every i."""
    MASTER = "Master"
    """As Parallel, only the first devices."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One collective over all groups of a form at once."""

    slice_level: int
    form: Form
    collective: CollectiveKind
    ancestor: int | None = None
    """The slice level that Parallel and Master stay inside of."""

    def __post_init__(self) -> None:
        if (self.form is Form.INSIDE) != (self.ancestor is None):
            raise ReductionError(
                f"{self.form.value} at slice level {self.slice_level} has ancestor {self.ancestor}; Parallel and Master"
                " name one, as in Parallel(0), and InsideGroup names none"
            )
        if self.slice_level < 0 or (self.ancestor is not None and not 0 <= self.ancestor < self.slice_level):
            raise ReductionError(
                f"slice level {self.slice_level} with ancestor {self.ancestor}: levels count from 0, the whole, and an"
                " ancestor is a smaller level than the slice"
            )

    def __str__(self) -> str:
        around = "" if self.ancestor is None else f"({self.ancestor})"
        return f"{self.collective.value}({self.slice_level}, {self.form.value}{around})"


@dataclass(frozen=True, slots=True)
class ReductionProgram:
    """Steps, each waiting for the one before, over a hierarchy of ``depth`` factors."""

    depth: int
    steps: tuple[Instruction, ...]

    def __post_init__(self) -> None:
        for step in self.steps:
            deepest = self.depth - 1 if step.form is Form.INSIDE else self.depth
            if step.slice_level > deepest:
                raise ReductionError(
                    f"{step} does not fit {self.depth} factors: its slice level is at most {deepest}"
                )

    def __str__(self) -> str:
        return "; ".join(map(str, self.steps))

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.steps)


_STEP = re.compile(r"\s*(\w+)\s*\(\s*(\d+)\s*,\s*(\w+)\s*(?:\(\s*(\d+)\s*\))?\s*\)\s*")


def parse_program(text: str, depth: int) -> ReductionProgram:
    """A program from its text."""
    parts = [part for part in text.split(";") if part.strip()]
    return ReductionProgram(depth, tuple(parse_instruction(part) for part in parts))


def parse_instruction(text: str) -> Instruction:
    """A step from its text."""
    found = _STEP.fullmatch(text)
    if found is None:
        raise ReductionError(
            f"{text.strip()!r} is no step of a reduction; one reads allreduce(1, Parallel(0)) or allgather(1, InsideGroup)"
        )
    collective, level, form, ancestor = found.groups()
    if collective not in STEPS or form not in [one.value for one in Form]:
        raise ReductionError(
            f"{text.strip()!r}: the collectives are {', '.join(STEPS)}, and the forms"
            f" {', '.join(one.value for one in Form)}"
        )
    return Instruction(
        int(level), Form(form), CollectiveKind(collective), None if ancestor is None else int(ancestor)
    )
