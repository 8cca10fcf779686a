"""Plans of the library in the form that measurements in the lab use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hemiola.algorithms.library import ALGORITHMS
from hemiola.compiler.compile import compile_program
from hemiola.compiler.options import CompileOptions
from hemiola.integrations.bench.backend import IN_PLACE
from hemiola.ir.plan import Plan


def plan_of(
    algorithm: str, num_ranks: int, *, options: CompileOptions | None = None, **parameters: Any
) -> Plan:
    """A plan of the library, in place or not as programs mostly call its collective."""
    found = ALGORITHMS[algorithm]
    program = found.build(ranks=num_ranks, in_place=IN_PLACE.get(found.kind, False), **parameters)
    return compile_program(program, options).plan


def rings(levels: Sequence[int]) -> dict[str, Any]:
    """The parameters of a hierarchical algorithm with rings at all levels."""
    return {"levels": tuple(levels), "inside": "ring", "across": "ring"}
