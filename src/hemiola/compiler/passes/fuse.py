"""fuse: what is received goes on without a detour through memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hemiola import _core
from hemiola.compiler.options import CompileOptions
from hemiola.ir.instruction_dag import INSTRUCTION, InstructionDag
from hemiola.ir.rows import as_bytes, from_bytes


@dataclass(frozen=True, slots=True)
class Fuse:
    """r x; s x -> rcs x.   rrc x; s x -> rrcs x, or rrs x where x is overwritten before anybody reads it.

    What is sent may lie elsewhere than where it was received, as long as it is the same data and still lies
    there too: r x; cpy x y; s y -> rcs x; cpy x y. Messages of more chunks than there are
    slots stay apart: they need both ends at once, and fused they would make a ring run in turns.
    """

    name: str = "fuse"

    def apply(self, dag: InstructionDag, options: CompileOptions) -> InstructionDag:
        """Join receives with the sends of what they received."""
        fused = _core.fuse(as_bytes(dag.instructions), dag.chunks(), dag.kept_chunks(), options.slots)
        rows = from_bytes(fused.instructions, INSTRUCTION)
        return replace(dag, instructions=rows, left_apart=fused.left_apart)

    def skip(self, dag: InstructionDag, options: CompileOptions) -> InstructionDag:
        """Nothing is fused."""
        return dag
