"""Load: the bytes that a plan puts on every link, and the time that the busiest one needs for them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hemiola.errors import TopologyError
from hemiola.ir.opcodes import TRAITS
from hemiola.ir.plan import Plan
from hemiola.topology.network import Network

Amounts = npt.NDArray[np.float64]
SENDS = np.array([traits.sends for traits in TRAITS])


def link_bytes(plan: Plan, num_bytes: int, network: Network) -> Amounts:
    """Bytes over every link of a network, for ``num_bytes`` of input of a rank."""
    if network.system.num_ranks != plan.num_ranks:
        raise TopologyError(
            f"plan {plan.name} is for {plan.num_ranks} ranks, and system {network.system.name} has {network.system.num_ranks}"
        )
    src, dst, chunks = chunks_between(plan)
    chunk_bytes = num_bytes / int(plan.collective.named_chunks()[0].max())
    first, links = network.routes(src, dst)
    loads = np.zeros(network.num_links)
    np.add.at(loads, links, np.repeat(chunks * chunk_bytes, first[1:] - first[:-1]))
    return loads


def chunks_between(plan: Plan) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Pairs of ranks that send, source and destination, and how many chunks each pair moves."""
    blocks = plan.threadblocks
    sizes = np.diff(np.append(blocks["first_step"].astype(np.int64), len(plan.steps)))
    block = np.repeat(np.arange(len(blocks)), sizes.astype(np.int64))
    sends = SENDS[plan.steps["opcode"]]
    block, count = block[sends], plan.steps["count"][sends].astype(np.int64)
    pairs = np.stack(
        [blocks["rank"][block].astype(np.int64), blocks["send_peer"][block].astype(np.int64)], axis=1
    )
    unique, inverse = np.unique(pairs, axis=0, return_inverse=True)
    chunks = np.bincount(inverse.reshape(-1), weights=count, minlength=len(unique)).astype(np.int64)
    return unique[:, 0], unique[:, 1], chunks


def busiest_link(plan: Plan, num_bytes: int, network: Network) -> tuple[float, int]:
    """Seconds that the busiest link needs for its bytes alone, and which one it is."""
    seconds = link_bytes(plan, num_bytes, network) / network.capacities
    link = int(seconds.argmax())
    return float(seconds[link]), link
