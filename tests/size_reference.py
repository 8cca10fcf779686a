"""How runtimes cut a call of some size, worked out once more and slowly; it shares nothing with ``hemiola.ir``.

A call is cut into as many chunks as the file says. A message carries as many chunks of a step as its payload has room for,
one at least and 71 at most, and takes one of the connection's slots. Longer chunks run in several iterations, in each of
which a message carries one.
"""

from __future__ import annotations

from hemiola.collectives import Collective
from hemiola.ir.plan import Plan
from interleavings import run_stops
from plan_network import BrokenError, read_network

MIB, KIB = 1 << 20, 1 << 10
PAYLOADS = {
    ("rccl", "Simple"): 2 * MIB,
    ("rccl", "LL"): 16 * KIB,
    ("rccl", "LL128"): 50_176,
    ("msccl", "Simple"): 2 * MIB,
    ("msccl", "LL"): 32 * KIB,
    ("msccl", "LL128"): 576_000,
}
SLOTS = {"Simple": 2, "LL": 8, "LL128": 8}
RUNTIMES = ("rccl", "msccl")
WIDE = ("allgather", "reducescatter", "alltoall")


def chunks_of_call(collective: Collective, runtime: str) -> int:
    """Into how many chunks the size of a call, as tests print it, is cut."""
    if collective.kind == "custom":
        return max(*(int(sizes.max()) for sizes in collective.named_chunks()))
    shared = collective.kind in (*WIDE, "gather", "scatter")
    return collective.chunks * (collective.num_ranks if shared else 1)


def packing_of(plan: Plan, runtime: str, num_bytes: int) -> int:
    """How many chunks of a step a message carries."""
    chunks = chunks_of_call(plan.collective, runtime)
    chunk_bytes = (num_bytes + chunks - 1) // chunks
    room = PAYLOADS[runtime, plan.protocol.value] // chunk_bytes
    return min(71, max(1, room))


def hangs_at_size(plan: Plan, runtime: str, num_bytes: int) -> bool | None:
    """Whether a call of that size never ends; None where the plan cannot run, or stops even with endless slots."""
    try:
        network = read_network(plan)
    except BrokenError:
        return None
    if run_stops(network, None, None):
        return None
    return run_stops(network, SLOTS[plan.protocol.value], packing_of(plan, runtime, num_bytes))
