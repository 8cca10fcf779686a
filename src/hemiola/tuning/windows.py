"""The windows: which algorithm of the library is taken where, up to which size. One table, to be edited.

The rows of a collective are asked from the first to the last, and the first one whose condition holds for the
layout of the ranks, and whose limit the size does not pass, is taken. Sizes are the bytes of the collective
(`collectives.kinds`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hemiola.collectives import CollectiveKind
from hemiola.tuning.layout import Layout
from hemiola.units import LARGEST

KIB, MIB = 1 << 10, 1 << 20

FEW_RANKS = 16
"""Up to this many, every rank may have a connection to every other."""
MOST_IN_A_RING = 128
"""Beyond, a ring has more steps than any size repays, and its plan more instructions than is worth compiling."""

Condition = Callable[[Layout], str | None]
"""None where it holds, otherwise why not."""
Limit = Callable[[int], int]
"""The most bytes of the collective, by the number of ranks."""


@dataclass(frozen=True, slots=True)
class AlgorithmWindow:
    """A row: where an algorithm is taken, and why there."""

    when: Condition
    max_bytes: Limit
    algorithm: str
    why: str
    parameters: Mapping[str, int | str] = field(default_factory=dict)
    """Beside ranks, place, ends and levels, which the request gives."""
    message_bytes: int = 0
    """The size of the plan's messages; 0 lets the runtime choose."""


def anywhere(layout: Layout) -> str | None:
    """Always holds."""
    return None


def few(layout: Layout) -> str | None:
    """Few enough ranks that all of them may be connected to each other."""
    return None if layout.num_ranks <= FEW_RANKS else f"it is for up to {FEW_RANKS} ranks"


def one_host(layout: Layout) -> str | None:
    """All ranks share memory."""
    return None if layout.num_hosts == 1 else f"it is for one host, and there are {layout.num_hosts}"


def few_on_one_host(layout: Layout) -> str | None:
    """Few ranks that share memory."""
    return one_host(layout) or few(layout)


def few_alike(layout: Layout) -> str | None:
    """Few ranks that are all equally far from each other: on one host, or each on its own."""
    alike = layout.num_hosts in (1, layout.num_ranks)
    return few(layout) if alike else "it is for ranks on one host, or each on its own"


def few_on_own_hosts(layout: Layout) -> str | None:
    """Few ranks, each on a host of its own, so that every message crosses the network."""
    alone = layout.num_hosts == layout.num_ranks > 1
    return few(layout) if alone else "it is for ranks each on its own host"


def host_levels(layout: Layout) -> str | None:
    """Several hosts with equally many neighbouring ranks each."""
    return layout.obstacle


def few_host_levels(layout: Layout) -> str | None:
    """Such hosts, few of them and with few ranks each."""
    if layout.obstacle is not None or max(layout.levels) <= FEW_RANKS:
        return layout.obstacle
    return f"all-pairs is for up to {FEW_RANKS} hosts of up to {FEW_RANKS} ranks"


def ring_length(layout: Layout) -> str | None:
    """Not too many ranks for a ring or a chain."""
    return None if layout.num_ranks <= MOST_IN_A_RING else f"it is for up to {MOST_IN_A_RING} ranks"


def whole(num_bytes: int) -> Limit:
    """Of the collective, whatever the number of ranks."""
    return lambda num_ranks: num_bytes


def per_share(num_bytes: int) -> Limit:
    """Of what each rank contributes, where the collective has a share of every rank."""
    return lambda num_ranks: num_bytes * num_ranks


def of_all_ranks(num_bytes: int) -> Limit:
    """What all ranks have together, so that fewer ranks may have more each."""
    return lambda num_ranks: num_bytes // num_ranks


NO_LIMIT = whole(LARGEST)

ALL_PAIRS = {"inside": "allpairs", "across": "allpairs"}
HALVING = {"inside": "halving", "across": "halving"}
RINGS = {"inside": "ring", "across": "ring"}

WINDOWS: Mapping[CollectiveKind, tuple[AlgorithmWindow, ...]] = {
    CollectiveKind.ALLREDUCE: (
        AlgorithmWindow(few_on_one_host, of_all_ranks(64 * KIB), "allreduce_one_step", "one step; so small that adding up everything everywhere costs less than a second step"),
        AlgorithmWindow(few, of_all_ranks(16 * KIB), "allreduce_one_step", "one step; so small that only the number of steps counts"),
        AlgorithmWindow(few_alike, whole(256 * KIB), "allreduce_allpairs", "two steps with the bytes of a ring"),
        AlgorithmWindow(few_host_levels, whole(MIB), "allreduce_hierarchical", "four steps, and the fewest bytes between hosts", ALL_PAIRS),
        AlgorithmWindow(host_levels, whole(MIB), "allreduce_hierarchical", "few steps, and the fewest bytes between hosts", HALVING),
        AlgorithmWindow(host_levels, NO_LIMIT, "allreduce_hierarchical", "the fewest bytes between hosts, in rings of neighbours", RINGS),
        AlgorithmWindow(anywhere, whole(256 * KIB), "allreduce_halving_doubling", "the bytes of a ring in few steps"),
        AlgorithmWindow(few_on_own_hosts, NO_LIMIT, "allreduce_ring", "the fewest bytes, in large messages, so that the delay of the network is waited for rarely", message_bytes=MIB),
        AlgorithmWindow(ring_length, NO_LIMIT, "allreduce_ring", "the fewest bytes, over two neighbours only"),
        AlgorithmWindow(anywhere, NO_LIMIT, "allreduce_halving_doubling", "the bytes of a ring, which is too long here"),
    ),
    CollectiveKind.ALLGATHER: (
        AlgorithmWindow(few_on_one_host, NO_LIMIT, "allgather_allpairs", "one step with the bytes of a ring"),
        AlgorithmWindow(few_alike, per_share(256 * KIB), "allgather_allpairs", "one step with the bytes of a ring"),
        AlgorithmWindow(few_host_levels, per_share(256 * KIB), "allgather_hierarchical", "two steps, and the fewest bytes between hosts", ALL_PAIRS),
        AlgorithmWindow(host_levels, NO_LIMIT, "allgather_hierarchical", "the fewest bytes between hosts, in rings of neighbours", RINGS),
        AlgorithmWindow(anywhere, per_share(16 * KIB), "allgather_recursive_doubling", "the bytes of a ring in few steps"),
        AlgorithmWindow(ring_length, NO_LIMIT, "allgather_ring", "over two neighbours only"),
        AlgorithmWindow(anywhere, NO_LIMIT, "allgather_recursive_doubling", "the bytes of a ring, which is too long here"),
    ),
    CollectiveKind.REDUCESCATTER: (
        AlgorithmWindow(few_alike, whole(256 * KIB), "reducescatter_allpairs", "one step with the bytes of a ring"),
        AlgorithmWindow(few_host_levels, whole(MIB), "reducescatter_hierarchical", "two steps, and the fewest bytes between hosts", ALL_PAIRS),
        AlgorithmWindow(host_levels, NO_LIMIT, "reducescatter_hierarchical", "the fewest bytes between hosts, in rings of neighbours", RINGS),
        AlgorithmWindow(anywhere, whole(256 * KIB), "reducescatter_recursive_halving", "the bytes of a ring in few steps"),
        AlgorithmWindow(ring_length, NO_LIMIT, "reducescatter_ring", "over two neighbours only"),
        AlgorithmWindow(anywhere, NO_LIMIT, "reducescatter_recursive_halving", "the bytes of a ring, which is too long here"),
    ),
    CollectiveKind.ALLTOALL: (
        AlgorithmWindow(host_levels, whole(32 * KIB), "alltoall_two_step", "fewer and larger messages between hosts"),
        AlgorithmWindow(anywhere, NO_LIMIT, "alltoall_allpairs", "every byte is sent once"),
    ),
    CollectiveKind.ALLTONEXT: (
        AlgorithmWindow(anywhere, NO_LIMIT, "alltonext_direct", "every byte is sent once"),
    ),
    CollectiveKind.BROADCAST: (
        AlgorithmWindow(one_host, whole(MIB), "broadcast_tree", "few steps", {"chunks": 1}),
        AlgorithmWindow(anywhere, whole(64 * KIB), "broadcast_tree", "few steps", {"chunks": 1}),
        AlgorithmWindow(ring_length, NO_LIMIT, "broadcast_chain", "every rank passes on as much as it receives, to its neighbour"),
        AlgorithmWindow(anywhere, NO_LIMIT, "broadcast_tree", "few steps; a chain is too long here"),
    ),
    CollectiveKind.REDUCE: (
        AlgorithmWindow(one_host, whole(MIB), "reduce_tree", "few steps", {"chunks": 1}),
        AlgorithmWindow(anywhere, whole(64 * KIB), "reduce_tree", "few steps", {"chunks": 1}),
        AlgorithmWindow(ring_length, NO_LIMIT, "reduce_chain", "every rank passes on as much as it receives, to its neighbour"),
        AlgorithmWindow(anywhere, NO_LIMIT, "reduce_tree", "few steps; a chain is too long here"),
    ),
    CollectiveKind.GATHER: (
        AlgorithmWindow(few, NO_LIMIT, "gather_direct", "every byte is sent once, and the root has few to listen to"),
        AlgorithmWindow(anywhere, per_share(16 * KIB), "gather_tree", "few messages for the root"),
        AlgorithmWindow(anywhere, NO_LIMIT, "gather_direct", "every byte is sent once"),
    ),
    CollectiveKind.SCATTER: (
        AlgorithmWindow(few, NO_LIMIT, "scatter_direct", "every byte is sent once, and the root has few to serve"),
        AlgorithmWindow(anywhere, whole(MIB), "scatter_tree", "few messages for the root"),
        AlgorithmWindow(anywhere, NO_LIMIT, "scatter_direct", "every byte is sent once"),
    ),
    CollectiveKind.SENDRECV: (
        AlgorithmWindow(anywhere, NO_LIMIT, "sendrecv", "the one way there is"),
    ),
}  # fmt: skip
"""By collective, in the order in which they are asked; the last row of each takes what is left."""

WITHOUT_WINDOW: Mapping[str, str] = {
    "allreduce_double_binary_tree": "it sends up to 2 S per rank, more than halving and doubling in as many steps",
    "alltoall_three_step": "it sends more bytes than two-step, which only many hosts with tiny chunks repay",
    "alltonext_scattered": "it repays only where every rank of a host has a network interface of its own",
}
"""Algorithms of the library that are never taken by themselves, and why; they run as plans of one's own."""
