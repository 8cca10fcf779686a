"""Hemiola: placement, collectives and fusion of a training step, planned together.

The public door, in the order in which data passes: a collective, a program, a plan, its proof, its file.
"""

# ruff: noqa: I001 (the order is that of the flow)
from hemiola._core import version as _version

from hemiola.errors import HemiolaError as HemiolaError
from hemiola.collectives import AllGather as AllGather
from hemiola.collectives import AllReduce as AllReduce
from hemiola.collectives import AllToAll as AllToAll
from hemiola.collectives import AllToNext as AllToNext
from hemiola.collectives import Broadcast as Broadcast
from hemiola.collectives import Collective as Collective
from hemiola.collectives import Custom as Custom
from hemiola.collectives import Gather as Gather
from hemiola.collectives import Reduce as Reduce
from hemiola.collectives import ReduceScatter as ReduceScatter
from hemiola.collectives import Scatter as Scatter
from hemiola.collectives import SendRecv as SendRecv
from hemiola.language.program import Program as Program
from hemiola.language.entry import program as program
from hemiola.language.entry import load_program as load_program
from hemiola.compiler.options import CompileOptions as CompileOptions
from hemiola.compiler.compile import compile_program as compile_program
from hemiola.ir.plan import Plan as Plan
from hemiola.ir.plan import Protocol as Protocol
from hemiola.ir.verify import verify as verify
from hemiola.ir.verdict import Verdict as Verdict
from hemiola.ir.targets import TARGETS as TARGETS
from hemiola.ir.formats import read_plan as read_plan
from hemiola.ir.formats import write_plan as write_plan
from hemiola.ir.text import plan_text as plan_text
from hemiola.runtime.communicator.communicator import Communicator as Communicator
from hemiola.runtime.plans.plan_source import provide_default as _provide_default
from hemiola.tuning.library_plans import own_and_library_plans as _own_and_library_plans

_provide_default(_own_and_library_plans)
__version__ = _version()
