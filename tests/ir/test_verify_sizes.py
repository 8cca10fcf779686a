"""The first size at which a plan hangs: closed forms, the patterns that RCCL and torchcomms ship, and what was measured."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

import hand_made
from hemiola.algorithms.library import build
from hemiola.compiler.compile import compile_program
from hemiola.compiler.deliver import deliver
from hemiola.compiler.options import CompileOptions
from hemiola.errors import LimitError, VerificationError
from hemiola.ir.formats import read_plan
from hemiola.ir.formats.msccl_xml_read import parse_msccl_xml
from hemiola.ir.formats.msccl_xml_write import to_xml
from hemiola.ir.plan import Protocol
from hemiola.ir.proven_range import within_proven_range
from hemiola.ir.runtime_slots import GPU_RUNTIMES, slot_rule
from hemiola.ir.size_windows import RUNTIMES
from hemiola.ir.targets import AZURE_XML, MSCCL_XML, PLAN, RCCL_XML
from hemiola.ir.verify_sizes import OWN_SLOTS, verify_sizes
from hemiola.runtime.settings import Settings
from size_reference import hangs_at_size
from subjects import library_plans

RUNS = Path(__file__).parents[3] / "shared" / "data" / "mi300x-runs"
MIB = 1 << 20


@pytest.mark.parametrize("runtime", GPU_RUNTIMES)
@pytest.mark.parametrize("protocol", list(Protocol))
@pytest.mark.parametrize("count", [1, 2, 3, 8, 20, 64])
def test_two_ranks_that_send_first(runtime: str, protocol: Protocol, count: int) -> None:
    """All sends must fit into the slots, so it hangs as soon as a message carries fewer than count / slots chunks."""
    rule = slot_rule(runtime, protocol)
    plan = replace(hand_made.exchange(count, count), protocol=protocol)
    needed = -(-count // rule.slots)
    first = None if needed == 1 else count * (rule.payload_bytes // needed + 1)
    sized = verify_sizes(plan, runtime)
    assert sized.verdict.ok
    assert sized.hangs_from_bytes == first
    if first is not None:
        assert sized.correct_to_bytes == first - count
        assert not sized.hangs_at(first - count)
        assert sized.hangs_at(first)
        assert not sized.ok
        assert verify_sizes(replace(plan, max_bytes=first - 1), runtime).ok


def test_more_messages_than_slots_at_every_size() -> None:
    sized = verify_sizes(hand_made.exchange(12, 4), "rccl")
    assert (sized.hangs_from_bytes, sized.correct_to_bytes) == (12, 0)
    assert verify_sizes(replace(hand_made.exchange(12, 4), min_bytes=100), "rccl").hangs_from_bytes == 108
    assert verify_sizes(hand_made.exchange(12, 4), "rccl", slots=12).hangs_from_bytes is None


@pytest.mark.parametrize(("max_mib", "instances"), [(11, 8), (14, 8), (16, 8), (18, 8), (20, 8)])
def test_patterns_that_runtimes_ship(max_mib: int, instances: int) -> None:
    """All-pairs on eight ranks, 512 chunks, 8 at once, for up to 11 to 20 MiB: right there, and they hang from 256 MiB on."""
    plan = replace(hand_made.reduce_by_pairs(8, 8, instances), max_bytes=max_mib * MIB)
    assert plan.collective.chunks == 512
    sized = verify_sizes(parse_msccl_xml(to_xml(plan, AZURE_XML).encode()), "rccl")
    assert sized.ok
    assert sized.hangs_from_bytes == 256 * MIB + 512
    assert not verify_sizes(replace(plan, max_bytes=0), "rccl").ok


def test_library_plans_never_hang() -> None:
    for name, plan in library_plans().items():
        for runtime in RUNTIMES:
            sized = verify_sizes(plan, runtime)
            assert sized.ok, name
            assert sized.hangs_from_bytes is None, name


def test_every_size_agrees_with_the_slow_reference() -> None:
    random = Random(0)
    for name, plan in hand_made.depending_on_size().items():
        for protocol in Protocol:
            for runtime in ("rccl", "msccl"):
                changed = replace(plan, protocol=protocol)
                sized = verify_sizes(changed, runtime)
                for _ in range(8):
                    size = round(2 ** random.uniform(0, 22)) * sized.size_step
                    hangs = hangs_at_size(changed, runtime, size)
                    assert sized.hangs_at(size) is hangs, (name, protocol, runtime, size)


def test_the_cycle_is_that_of_the_first_size() -> None:
    sized = verify_sizes(hand_made.reduce_by_pairs(8, 8), "rccl")
    assert sized.hang is not None
    assert sized.hang.message.startswith(
        f"from {32 * MIB + 64} bytes on, under rccl with Simple (2 slots per connection, a message carries 3 chunks), each of"
    )
    assert "waits for a free slot to threadblock" in sized.hang.message


def test_a_wrong_plan_is_wrong_at_every_size() -> None:
    sized = verify_sizes(hand_made.relay(waits=False), "rccl")
    assert not sized.ok
    assert sized.hangs_from_bytes is None
    unmatched = hand_made.delivery(hand_made.step("s"), receives=[hand_made.step("r")] * 2)
    assert verify_sizes(unmatched, "rccl").windows == ()


def test_our_own_runtime_sends_a_step_as_one_message() -> None:
    assert Settings().slots == OWN_SLOTS
    assert verify_sizes(hand_made.exchange(20, 20), "hemiola").hangs_from_bytes is None
    assert verify_sizes(hand_made.exchange(20, 4), "hemiola").hangs_from_bytes == 1
    with pytest.raises(LimitError, match="expected one of rccl, msccl, nccl, hemiola"):
        verify_sizes(hand_made.exchange(2), "gloo")


def test_a_delivered_file_ends_where_it_would_hang(tmp_path: Path) -> None:
    """Steps of 8 chunks need 8 slots, or 2 while 4 chunks fit into a message of 2 MiB: up to 32 chunks of 512 KiB."""
    plan = hand_made.reduce_by_pairs(4, 8)
    ranged = within_proven_range(plan, RCCL_XML)
    assert (ranged.plan.max_bytes, ranged.hangs_from_bytes) == (16 * MIB, 16 * MIB + 32)
    assert within_proven_range(ranged.plan, RCCL_XML).plan is ranged.plan
    deliver(plan, tmp_path / "a.xml", RCCL_XML, slots=8)
    assert read_plan(tmp_path / "a.xml").max_bytes == 16 * MIB
    assert verify_sizes(read_plan(tmp_path / "a.xml"), "rccl").ok
    # msccl does not serve the end itself.
    deliver(plan, tmp_path / "b.xml", MSCCL_XML, slots=8)
    assert read_plan(tmp_path / "b.xml").max_bytes == 16 * MIB + 1
    deliver(plan, tmp_path / "c.plan", PLAN, slots=8)
    assert read_plan(tmp_path / "c.plan").max_bytes == 0
    with pytest.raises(VerificationError, match="would hang under rccl at every size"):
        deliver(replace(plan, min_bytes=64 * MIB), tmp_path / "d.xml", RCCL_XML, slots=8)
    assert not (tmp_path / "d.xml").exists()


def test_what_the_compiler_makes_for_two_slots_has_no_end(tmp_path: Path) -> None:
    compiled = compile_program(
        build("allreduce_allpairs", {"ranks": "8"}), CompileOptions(disabled=frozenset({"fuse"}))
    )
    deliver(compiled.plan, tmp_path / "a.xml", RCCL_XML, slots=2)
    assert read_plan(tmp_path / "a.xml").max_bytes == 0


@pytest.mark.skipif(not RUNS.exists(), reason="needs ../shared/data/mi300x-runs")
def test_plans_hang_where_they_hung_and_nowhere_else() -> None:
    with open(RUNS / "hangs.csv") as file:
        hung = {row["plan"]: row for row in csv.DictReader(file)}
    measured: dict[str, list[int]] = {}
    with open(RUNS / "times.csv") as file:
        for row in csv.DictReader(file):
            measured.setdefault(row["plan"], []).append(int(row["bytes"]))
    for path in sorted(RUNS.glob("*.xml")):
        sized = verify_sizes(read_plan(path), "rccl")
        assert sized.verdict.ok
        assert not any(map(sized.hangs_at, measured[path.stem])), path.stem
        if path.stem in hung:
            good, bad = (int(hung[path.stem][key]) for key in ("last_good_bytes", "hung_bytes"))
            assert sized.hangs_from_bytes is not None
            assert good < sized.hangs_from_bytes <= bad
        else:
            assert sized.hangs_from_bytes is None, path.stem
    assert len(hung) == 2
