"""wire_time: the bytes that a plan puts on every link and on every device that adds or copies, and how long the busiest needs for them alone.

No replay is shorter, so a search need not replay a plan whose wire time is longer than what it has found already.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hemiola.ir.opcodes import TRAITS
from hemiola.ir.plan import Plan
from hemiola.topology.network import Network
from hemiola.topology.system import System

Amounts = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]
SENDS = np.array([traits.sends for traits in TRAITS])
ADDS = np.array([traits.reduces for traits in TRAITS])
COPIES = np.array([traits.writes_destination and not traits.reduces for traits in TRAITS])


def link_bytes(
    plan: Plan, num_bytes: float, network: Network, groups: Sequence[Sequence[int]] | Numbers | None = None
) -> Amounts:
    """Bytes over every link of a network; rank r is on device r, or in several groups at once on the r-th of each."""
    devices = np.arange(plan.num_ranks).reshape(1, -1) if groups is None else np.asarray(groups, np.int64)
    src, dst, chunks = chunks_between(plan)
    chunk_bytes = num_bytes / plan.collective.num_shares() / plan.share_chunks
    first, links = network.routes(devices[:, src].reshape(-1), devices[:, dst].reshape(-1))
    loads = np.zeros(network.num_links)
    np.add.at(loads, links, np.repeat(np.tile(chunks * chunk_bytes, len(devices)), first[1:] - first[:-1]))
    return loads


def chunks_between(plan: Plan) -> tuple[Numbers, Numbers, Numbers]:
    """Pairs of ranks that send, source and destination, and how many chunks each pair moves."""
    blocks = plan.threadblocks
    sizes = np.diff(np.append(blocks["first_step"].astype(np.int64), len(plan.steps)))
    block = np.repeat(np.arange(len(blocks)), sizes.astype(np.int64))
    sends = SENDS[plan.steps["opcode"]]
    block, count = block[sends], plan.steps["count"][sends].astype(np.int64)
    pairs = blocks["rank"][block].astype(np.int64) * plan.num_ranks + blocks["send_peer"][block]
    unique, inverse = np.unique(pairs, return_inverse=True)
    chunks = np.bincount(inverse.reshape(-1), weights=count, minlength=len(unique)).astype(np.int64)
    return unique // plan.num_ranks, unique % plan.num_ranks, chunks


def busiest_link(
    plan: Plan, num_bytes: float, network: Network, groups: Sequence[Sequence[int]] | Numbers | None = None
) -> tuple[float, int]:
    """Seconds that the busiest link needs for its bytes alone, and which one it is."""
    seconds = link_bytes(plan, num_bytes, network, groups) / network.capacities
    link = int(seconds.argmax())
    return float(seconds[link]), link


def work_seconds(
    plan: Plan, num_bytes: float, system: System, groups: Sequence[Sequence[int]] | Numbers
) -> float:
    """Seconds that the busiest device or host needs for the additions and copies of its ranks alone."""
    devices, compute = np.asarray(groups, np.int64), system.compute
    chunk_bytes = num_bytes / plan.collective.num_shares() / plan.share_chunks
    added, copied = (_chunks_of_ranks(plan, chosen) * chunk_bytes for chosen in (ADDS, COPIES))
    hosts = np.array(system.host_of_rank, np.int64)[devices]
    seconds = 0.0
    for of_ranks, of_device, of_host in (
        (added, compute.add_bandwidth, compute.host_add_bandwidth),
        (copied, compute.copy_bandwidth, compute.host_copy_bandwidth),
        (added + copied, compute.core_bandwidth, compute.host_core_bandwidth),
    ):
        on_hosts = np.bincount(hosts.reshape(-1), np.tile(of_ranks, len(devices)))
        seconds = max(seconds, float(of_ranks.max(initial=0.0)) / of_device, float(on_hosts.max()) / of_host)
    return seconds


def _chunks_of_ranks(plan: Plan, chosen: npt.NDArray[np.bool_]) -> Amounts:
    """How many chunks the steps of some opcodes have on every rank."""
    sizes = np.diff(np.append(plan.threadblocks["first_step"].astype(np.int64), len(plan.steps)))
    rank = np.repeat(plan.threadblocks["rank"].astype(np.int64), sizes)
    weights = np.where(chosen[plan.steps["opcode"]], plan.steps["count"], 0)
    return np.bincount(rank, weights, minlength=plan.num_ranks).astype(np.float64)
