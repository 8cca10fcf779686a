"""Programs that leave their input alone are proven for every reduction, as those that work in place are."""

from __future__ import annotations

import pytest

from hemiola.collectives import CollectiveKind
from hemiola.compiler.compile import compile_program
from hemiola.ir.verify import verify
from hemiola.synthesis.lower import lower
from hemiola.synthesis.search import programs_up_to
from hemiola.synthesis.state import REDUCTIONS
from hemiola.synthesis.table import table_of


@pytest.mark.parametrize("kind", REDUCTIONS)
def test_out_of_place_is_proven(kind: CollectiveKind) -> None:
    for program in programs_up_to(table_of(2, kind), 2):
        lowered = lower(program, (2, 3), request=kind, in_place=False)
        assert not lowered.collective.in_place
        verify(compile_program(lowered).plan)
