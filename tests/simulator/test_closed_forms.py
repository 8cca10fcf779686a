"""Closed forms: within 1 % of the replay wherever there is one, and there is one where it is promised."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from hemiola.simulator.replay import simulate
from hemiola.simulator.runtimes.hemiola import HEMIOLA, HemiolaRuntime
from hemiola.simulator.runtimes.runtime_model import EqualTiles, RuntimeModel
from hemiola.topology.system import Compute, Level, Link, ProtocolCosts, System
from simulator.closed_forms import FORMS, closed_form
from simulator.scenes import hosts, library_plan

CHUNKS = 4


def _arguments(name: str, system: System) -> str:
    words = [f"ranks={system.num_ranks}"]
    if name == "allreduce_hierarchical":
        words.append("levels=" + ",".join(str(level.count) for level in system.levels))
    if name.endswith(("_tree", "_chain")):
        words.append(f"chunks={CHUNKS}")
    return " ".join(words)


@st.composite
def uniform_systems(draw: st.DrawFn) -> System:
    """Equal hosts of equal devices, or one host."""
    width = draw(st.sampled_from([5e9, 25e9, 270e9]))
    local = Link(width, width, draw(st.sampled_from([0.0, 1e-6])))
    device = Level("device", draw(st.sampled_from([1, 2, 3, 4, 8])), local)
    protocols = {
        "Simple": ProtocolCosts(
            draw(st.sampled_from([1.0, 0.9])),
            draw(st.sampled_from([0.0, 2e-6])),
            latency=draw(st.sampled_from([0.0, 3e-6])),
        )
    }
    if draw(st.booleans()):
        return System("one host", (device,), protocols=protocols)
    bandwidth, latency = draw(st.sampled_from([1e9, 5e9, 25e9])), draw(st.sampled_from([0.0, 1e-6, 2e-5]))
    host = Level(
        "host", draw(st.sampled_from([2, 3, 8])), Link(bandwidth, bandwidth, latency, draw(st.integers(1, 2)))
    )
    return System("hosts", (host, device), protocols=protocols)


def _form(
    name: str, system: System, num_bytes: int, *, chunks: int = CHUNKS, runtime: RuntimeModel = HEMIOLA
) -> float | None:
    plan = library_plan(name, _arguments(name, system))
    return closed_form(name, system, plan, num_bytes, chunks=chunks, runtime=runtime)


@settings(max_examples=200, deadline=None)
@given(
    name=st.sampled_from(list(FORMS)),
    system=uniform_systems(),
    num_bytes=st.sampled_from([0, 4096, 1 << 16, (1 << 20) + 4, 1 << 24, 1 << 26]),
    runtime=st.sampled_from([HemiolaRuntime(), EqualTiles(3), HemiolaRuntime(slots=8, tile_bytes=32 << 10)]),
)
def test_forms_are_within_one_percent_of_the_replay(
    name: str, system: System, num_bytes: int, runtime: RuntimeModel
) -> None:
    found = _form(name, system, num_bytes, chunks=CHUNKS, runtime=runtime)
    if found is not None:
        plan = library_plan(name, _arguments(name, system))
        expected = simulate(plan, system, num_bytes, runtime=runtime).seconds
        assert found == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("name", list(FORMS))
def test_every_form_has_an_answer(name: str) -> None:
    one = System("one host", (Level("device", 8, Link(25e9, 25e9, 1e-7)),))
    system = hosts(8, 8, nic=25e9, device=270e9) if name == "allreduce_hierarchical" else one
    found = _form(name, system, 1 << 26, chunks=CHUNKS)
    assert found is not None
    plan = library_plan(name, _arguments(name, system))
    assert found == pytest.approx(simulate(plan, system, 1 << 26).seconds, rel=0.01)


def test_a_ring_over_narrow_nics_has_a_form_too() -> None:
    system = hosts(4, 4, nic=1e9, device=100e9, latency=1e-6)
    found = _form("allreduce_ring", system, 1 << 26)
    assert found is not None
    plan = library_plan("allreduce_ring", "ranks=16")
    assert found == pytest.approx(simulate(plan, system, 1 << 26).seconds, rel=0.01)


def test_systems_without_a_form() -> None:
    limited = hosts(8, 1, compute=Compute(add_bandwidth=1e9))
    assert _form("allreduce_ring", limited, 1 << 20) is None
    assert _form("allreduce_double_binary_tree", hosts(8, 1), 1 << 20) is None
    uneven = System("uneven", hosts(8, 1).levels, exceptions={(0,): Link(1e6, 1e6)})
    assert _form("allreduce_ring", uneven, 1 << 20) is None


def test_nothing_takes_no_time() -> None:
    assert HemiolaRuntime().tiles(library_plan("allreduce_ring", "ranks=8"), 0, [0] * 8, None).size == 0
    assert _form("allreduce_ring", hosts(8, 1), 0) == 0


def test_there_is_no_form_where_slots_hold_up_only_the_messages_to_other_hosts() -> None:
    """Two devices a host, whose own links are the limit, and a long way between the hosts."""
    link = Link(25e9, 25e9, 2e-5, 2)
    system = System("far", (Level("host", 2, link), Level("device", 2, Link(25e9, 25e9))))
    runtime = HemiolaRuntime(slots=8, tile_bytes=32 << 10)
    for name in ("alltoall_allpairs", "allgather_allpairs"):
        assert _form(name, system, 1 << 24, chunks=CHUNKS, runtime=runtime) is None
        assert _form(name, system, 1 << 14, chunks=CHUNKS, runtime=runtime) is not None
