"""order_steps: the order in which threadblocks run, with the witness that it cannot deadlock."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hemiola import _core
from hemiola.compiler.options import CompileOptions
from hemiola.ir.instruction_dag import INSTRUCTION, InstructionDag
from hemiola.ir.rows import as_bytes, from_bytes


@dataclass(frozen=True, slots=True)
class OrderSteps:
    """The program is run once with the requested number of slots; the order of that run is the order of steps.

    A fused instruction on which the run would stand still is split. Turned off, every fused instruction is
    split and steps stand in the order of the operations, which needs one slot.
    """

    name: str = "order_steps"

    def apply(self, dag: InstructionDag, options: CompileOptions) -> InstructionDag:
        """Run, and keep the order of the run."""
        rows = _core.order_steps(as_bytes(dag.instructions), dag.chunks(), dag.num_operations, options.slots)
        return replace(dag, instructions=from_bytes(rows, INSTRUCTION))

    def skip(self, dag: InstructionDag, options: CompileOptions) -> InstructionDag:
        """The order of the operations, which is a run with one slot."""
        return replace(dag, instructions=from_bytes(_core.unfuse(as_bytes(dag.instructions)), INSTRUCTION))
