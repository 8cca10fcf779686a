"""insert_dependencies: order across the threadblocks of a rank."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hemiola import _core
from hemiola.compiler.options import CompileOptions
from hemiola.compiler.pipeline import refuse_skip
from hemiola.ir.instruction_dag import InstructionDag
from hemiola.ir.rows import as_bytes


@dataclass(frozen=True, slots=True)
class InsertDependencies:
    """tb0: r x; tb1: s x -> tb1's s x waits for tb0's r x.

    Of every pair of conflicting instructions in different threadblocks of a rank, the later waits for the
    earlier; of several in one threadblock, for the last.
    """

    name: str = "insert_dependencies"

    def apply(self, dag: InstructionDag, options: CompileOptions) -> InstructionDag:
        """Find all waits."""
        first, on = _core.insert_dependencies(as_bytes(dag.instructions), dag.chunks())
        return replace(dag, waits_first=first, waits_on=on)

    def skip(self, dag: InstructionDag, options: CompileOptions) -> InstructionDag:
        """Without dependencies a plan races."""
        raise refuse_skip(self.name, "a plan without dependencies races")
