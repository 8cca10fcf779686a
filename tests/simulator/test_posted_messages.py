"""A NIC is given the slices of Simple one by one, and a message of LL or LL128 as a whole, in however many parts it is replayed."""

from __future__ import annotations

from dataclasses import replace

import pytest

import hemiola
from hemiola.algorithms.library import ALGORITHMS
from hemiola.compiler.compile import compile_program
from hemiola.ir.plan import Protocol
from hemiola.ir.runtime_slots import slot_rule
from hemiola.topology.system import System

NIC_SECONDS = 1e-3
"""Far more than anything else takes."""


def with_nic_seconds(system: System, seconds: float) -> System:
    protocols = {name: replace(one, nic_seconds=seconds) for name, one in system.protocols.items()}
    return replace(system, protocols=protocols)


@pytest.mark.parametrize(("protocol", "num_posted"), [("LL", 1), ("LL128", 1), ("Simple", 2)])
def test_a_message_is_posted_as_its_protocol_posts_it(protocol: str, num_posted: int) -> None:
    system = hemiola.load_system("dgx-a100:2")
    program = ALGORITHMS["sendrecv"].build(ranks=16, source=0, destination=15, protocol=protocol)
    plan = compile_program(program).plan
    size = slot_rule("nccl", Protocol(protocol)).payload_bytes
    without, beside = (
        hemiola.simulate(plan, with_nic_seconds(system, seconds), size).seconds
        for seconds in (0.0, NIC_SECONDS)
    )
    assert beside - without == pytest.approx(num_posted * NIC_SECONDS, rel=0.05)
