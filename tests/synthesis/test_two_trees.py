"""An all-reduce on two complementary trees uses both, each for half of the chunks."""

from __future__ import annotations

import pytest

from hemiola.cost.estimates.wire_time import chunks_between
from hemiola.synthesis.lower import TWO_TREES, compile_reduction
from hemiola.synthesis.search import programs_up_to
from hemiola.synthesis.table import table_of


@pytest.mark.parametrize("num_devices", [4, 8])
def test_both_trees_carry_as_many_chunks(num_devices: int) -> None:
    (program,) = programs_up_to(table_of(1), 1)
    plan = compile_reduction(program, (num_devices,), exchange=TWO_TREES).plan
    _, _, chunks = chunks_between(plan)
    # A tree takes an edge up and one down for every device but its root; a second one takes other edges.
    assert int(chunks.sum()) == 2 * (num_devices - 1) * num_devices
    assert len(chunks) > 2 * (num_devices - 1)
    assert int(chunks.max()) <= num_devices
