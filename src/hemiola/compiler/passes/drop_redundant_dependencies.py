"""drop_redundant_dependencies: wait for nothing that has happened anyway."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hemiola import _core
from hemiola.compiler.options import CompileOptions
from hemiola.ir.instruction_dag import InstructionDag
from hemiola.ir.rows import as_bytes


@dataclass(frozen=True, slots=True)
class DropRedundantDependencies:
    """a waits for b and c, b waits for c -> a waits for b.

    What follows from other waits and from the order in threadblocks is left out. The search for a reason
    is bounded, so that time stays linear; a wait without a reason found stays, which is never wrong.
    """

    name: str = "drop_redundant_dependencies"

    def apply(self, dag: InstructionDag, options: CompileOptions) -> InstructionDag:
        """Leave out what follows from the rest."""
        assert dag.waits_first is not None
        assert dag.waits_on is not None
        first, on = _core.drop_redundant_dependencies(
            as_bytes(dag.instructions), dag.waits_first, dag.waits_on
        )
        return replace(dag, waits_first=first, waits_on=on)

    def skip(self, dag: InstructionDag, options: CompileOptions) -> InstructionDag:
        """All waits stay."""
        return dag
