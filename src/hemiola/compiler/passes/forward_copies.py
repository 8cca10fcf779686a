"""forward_copies: read the original instead of its copy."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hemiola import _core
from hemiola.compiler.options import CompileOptions
from hemiola.ir.instruction_dag import INSTRUCTION, InstructionDag
from hemiola.ir.rows import as_bytes, from_bytes


@dataclass(frozen=True, slots=True)
class ForwardCopies:
    """cpy i[0] -> o[0]; rrc msg + o[0] -> o[0]   becomes   rrc msg + i[0] -> o[0].

    A read of a chunk that is an unchanged local copy reads the original; a copy that nobody reads any more
    goes. So an out-of-place program may begin by copying its input and pays nothing for it.
    """

    name: str = "forward_copies"

    def apply(self, dag: InstructionDag, options: CompileOptions) -> InstructionDag:
        """Redirect reads and drop dead copies."""
        rows = _core.forward_copies(as_bytes(dag.instructions), dag.chunks(), dag.kept_chunks())
        return replace(dag, instructions=from_bytes(rows, INSTRUCTION))

    def skip(self, dag: InstructionDag, options: CompileOptions) -> InstructionDag:
        """Copies stay."""
        return dag
