"""Plans: where hemiola run takes its plan from: a plan file, or anything that hemiola compile takes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from hemiola.algorithms.library import ALGORITHMS
from hemiola.cli.sources import find_source
from hemiola.compiler.compile import compile_program
from hemiola.compiler.options import CompileOptions
from hemiola.errors import ScriptError
from hemiola.ir.plan import Plan


def find_plan(where: str, words: Sequence[str], options: Mapping[str, str], *, root: int | None) -> Plan:
    """The plan called ``where``; ``words`` come after ``--`` and ``options`` before it, as for compile."""
    if not _is_plan_file(where):
        source = find_source(where, words, options, name=None, msccl=False)
        (program,) = source.programs(both_places=False).values()
        return compile_program(program, CompileOptions(disabled=source.disabled)).plan
    if words or options:
        given = [*(f"--{key}" for key in options), *words]
        raise ScriptError(f"{where}: a plan file has no parameters, but {given[0]} was given; leave it out")
    from hemiola.ir.formats import read_plan  # an algorithm needs no file formats

    return read_plan(where, root=root)


def _is_plan_file(where: str) -> bool:
    """A path or a name with a suffix, other than that of a script; names of algorithms have neither."""
    if where.endswith(".py"):
        return False
    return os.path.exists(where) or os.sep in where or (where not in ALGORITHMS and "." in where)
