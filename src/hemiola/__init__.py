"""Hemiola: placement, collectives and fusion of a training step, planned together.

The public door, in the order in which data passes: a collective, a machine, a program, a plan, its proof, its file, its
time, and its run. What is behind a name is imported when the name is first used, so that importing takes no time.
"""

# ruff: noqa: I001 (the order is that of the flow)
from importlib import import_module as _import
from typing import TYPE_CHECKING

from hemiola._core import version as _version
from hemiola.on_demand import names_on_demand as _names_on_demand
from hemiola.runtime.default_source import provide_default as _provide_default

if TYPE_CHECKING:  # the table below, as type checkers and editors read it
    from hemiola.errors import HemiolaError as HemiolaError
    from hemiola.collectives import AllGather as AllGather, AllReduce as AllReduce, AllToAll as AllToAll
    from hemiola.collectives import AllToNext as AllToNext, Broadcast as Broadcast, Collective as Collective
    from hemiola.collectives import Custom as Custom, Gather as Gather, Reduce as Reduce, Scatter as Scatter
    from hemiola.collectives import ReduceScatter as ReduceScatter, SendRecv as SendRecv
    from hemiola.topology.system import System as System
    from hemiola.topology.presets import load_system as load_system
    from hemiola.language.program import Program as Program
    from hemiola.language.entry import program as program, load_program as load_program
    from hemiola.compiler.options import CompileOptions as CompileOptions
    from hemiola.compiler.compile import compile_program as compile_program
    from hemiola.ir.plan import Plan as Plan, Protocol as Protocol
    from hemiola.ir.verify import verify as verify
    from hemiola.ir.verdict import Verdict as Verdict
    from hemiola.ir.targets import TARGETS as TARGETS
    from hemiola.ir.formats import read_plan as read_plan, write_plan as write_plan
    from hemiola.ir.text import plan_text as plan_text
    from hemiola.planning import place as place, synthesize as synthesize, tune as tune, plan_job as plan_job
    from hemiola.planning import simulate as simulate, price as price, lower_bound as lower_bound
    from hemiola.runtime.communicator.communicator import Communicator as Communicator

_TABLE = (
    ("HemiolaError", "errors"),
    ("AllGather AllReduce AllToAll AllToNext Broadcast Collective Custom Gather Reduce", "collectives"),
    ("ReduceScatter Scatter SendRecv", "collectives"),
    ("System", "topology.system"),
    ("load_system", "topology.presets"),
    ("Program", "language.program"),
    ("program load_program", "language.entry"),
    ("CompileOptions", "compiler.options"),
    ("compile_program", "compiler.compile"),
    ("Plan Protocol", "ir.plan"),
    ("verify", "ir.verify"),
    ("Verdict", "ir.verdict"),
    ("TARGETS", "ir.targets"),
    ("read_plan write_plan", "ir.formats"),
    ("plan_text", "ir.text"),
    ("place synthesize tune simulate price lower_bound plan_job", "planning"),
    ("Communicator", "runtime.communicator.communicator"),
)
__version__ = _version()
_provide_default(lambda slots: _import("hemiola.tuning.library_plans").own_and_library_plans(slots))

if not TYPE_CHECKING:  # so that a type checker refuses names that are not in the table
    __all__, __getattr__, __dir__ = _names_on_demand(globals(), _TABLE)
