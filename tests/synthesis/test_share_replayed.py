"""One group on its share of a machine takes as long as all groups together on the whole machine."""

import pytest

from hemiola.cost.estimates.shared_system import shared_system
from hemiola.simulator.replay import simulate, simulate_together
from hemiola.simulator.runtimes.runtime_model import EqualTiles
from hemiola.simulator.timeline import Load
from hemiola.synthesis.lower import compile_reduction
from hemiola.synthesis.program import parse_program
from hemiola.topology.system import Level, Link, System
from plain_systems import plain_system as load_system
from synthesis.placed_groups import Matrix, placed_groups

PROGRAMS = (
    "reducescatter(1, InsideGroup); allreduce(1, Parallel(0)); allgather(1, InsideGroup)",
    "allreduce(0, InsideGroup)",
    "reduce(1, InsideGroup); allreduce(1, Master(0)); broadcast(1, InsideGroup)",
)
PLAIN = System("plain", (Level("host", 2, Link(8e9, 8e9, 1e-6)), Level("gpu", 8, Link(270e9, 270e9, 1e-6))))
RAILS, RING = load_system("dgx-a100:2"), load_system("p2-v100:2")


@pytest.mark.parametrize("text", PROGRAMS)
@pytest.mark.parametrize(
    ("system", "inside", "tolerance"),
    [(PLAIN, 4, 1e-9), (PLAIN, 2, 1e-9), (RAILS, 4, 1e-9), (RING, 4, 0.1), (RING, 2, 0.15)],
)
def test_a_share_takes_as_long_as_the_whole(system: System, inside: int, tolerance: float, text: str) -> None:
    matrix: Matrix = ((2, inside), (1, 8 // inside))
    groups = placed_groups(matrix, [0])
    plan = compile_reduction(parse_program(text, 2), (2, inside)).plan
    runtime = EqualTiles(4)
    alone = simulate(plan, shared_system(system, groups), 1 << 28, runtime=runtime)
    loads = [Load(plan, 1 << 28, group) for group in groups.tolist()]
    together = simulate_together(loads, system, runtime=runtime)
    assert alone.seconds == pytest.approx(together.seconds, rel=tolerance)
