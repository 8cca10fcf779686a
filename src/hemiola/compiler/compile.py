"""compile_program: the visible list of passes, and the proof of what they made."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from hemiola.compiler.options import CompileOptions
from hemiola.compiler.passes.assign_channels import AssignChannels
from hemiola.compiler.passes.assign_threadblocks import AssignThreadblocks
from hemiola.compiler.passes.drop_redundant_dependencies import DropRedundantDependencies
from hemiola.compiler.passes.emit import Emit
from hemiola.compiler.passes.forward_copies import ForwardCopies
from hemiola.compiler.passes.fuse import Fuse
from hemiola.compiler.passes.insert_dependencies import InsertDependencies
from hemiola.compiler.passes.lower import Lower
from hemiola.compiler.passes.order_operations import OrderOperations
from hemiola.compiler.passes.order_steps import OrderSteps
from hemiola.compiler.passes.replicate_instances import ReplicateInstances
from hemiola.compiler.pipeline import Pass, PassRecord, check_disabled, run_passes
from hemiola.errors import VerificationError
from hemiola.ir.chunk_dag import ChunkDag
from hemiola.ir.plan import Plan
from hemiola.ir.verdict import Verdict
from hemiola.ir.verify import verify
from hemiola.language.program import Program

PASSES: tuple[Pass, ...] = (
    ReplicateInstances(),
    OrderOperations(),
    Lower(),
    ForwardCopies(),
    Fuse(),
    AssignChannels(),
    AssignThreadblocks(),
    OrderSteps(),
    InsertDependencies(),
    DropRedundantDependencies(),
    Emit(),
)


@dataclass(frozen=True, slots=True)
class CompileReport:
    """What the passes did."""

    passes: tuple[PassRecord, ...]
    fused_by_depth: int | None = None
    """Where the order of the program was taken because it keeps more fused: what sorting by depth kept."""

    @property
    def fused(self) -> int:
        """Instructions that receive and send in one, in the plan."""
        return next((record.fused or 0 for record in self.passes if record.name == "order_steps"), 0)

    @property
    def left_apart(self) -> int:
        """Messages of more chunks than there are slots, which are not fused."""
        return max((record.left_apart for record in self.passes), default=0)

    @property
    def undone(self) -> dict[str, int]:
        """Fusions taken back, by the pass that had to."""
        known = [(record.name, record.fused) for record in self.passes if record.fused is not None]
        pairs = itertools.pairwise(known)
        return {name: before - after for (_, before), (name, after) in pairs if after < before}


@dataclass(frozen=True, slots=True)
class Compiled:
    """A proven plan and how it came about."""

    plan: Plan
    verdict: Verdict
    report: CompileReport


def compile_program(program: Program | ChunkDag, options: CompileOptions | None = None) -> Compiled:
    """Compile and prove; what is returned is correct with ``options.slots`` slots per connection."""
    options = options or CompileOptions()
    check_disabled(PASSES, options)
    plan, report = _run(_finished(program), options)
    verdict = verify(plan, slots=options.slots)
    if not verdict.ok:
        raise VerificationError(
            f"{plan.name} was compiled into a plan that is not correct; please report this: "
            f"{verdict.failures[0].message}"
        )
    return Compiled(plan, verdict, report)


def compile_unproven(program: Program | ChunkDag, options: CompileOptions | None = None) -> Plan:
    """The plan of a program without its proof, for searches that look at many and keep one, which is then proven."""
    options = options or CompileOptions()
    check_disabled(PASSES, options)
    return _run(_finished(program), options)[0]


def _run(dag: ChunkDag, options: CompileOptions) -> tuple[Plan, CompileReport]:
    """Run the passes; once more in the order of the program where sorting by depth cost many fusions.

    Sorted by depth, everything that can start starts first. Where that fills the slots of a ring, most of
    its fused instructions have to be split; in the order of the program they may fit.
    """
    plan, report = _run_once(dag, options)
    undone = report.undone.get("order_steps", 0)
    if undone <= report.fused or OrderOperations().name in options.disabled:
        return plan, report
    in_program_order = replace(options, disabled=options.disabled | {OrderOperations().name})
    other_plan, other_report = _run_once(dag, in_program_order)
    if other_report.fused > 2 * report.fused:
        return other_plan, replace(other_report, fused_by_depth=report.fused)
    return plan, report


def _run_once(dag: ChunkDag, options: CompileOptions) -> tuple[Plan, CompileReport]:
    plan, records = run_passes(PASSES, dag, options)
    assert isinstance(plan, Plan)
    return plan, CompileReport(records)


def _finished(program: Program | ChunkDag) -> ChunkDag:
    return program if isinstance(program, ChunkDag) else program.finish()
