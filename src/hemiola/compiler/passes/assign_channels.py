"""assign_channels: every instance gets channels of its own."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hemiola.compiler.options import CompileOptions
from hemiola.ir.chunk_dag import AUTOMATIC
from hemiola.ir.instruction_dag import InstructionDag
from hemiola.ir.plan import NO_PEER, Rows

Block = tuple[int, int]
"""A threadblock by hand: rank and the number that the program gave."""
Link = tuple[tuple[int, int], tuple[Block, ...], int]
"""(source, destination), the threadblocks by hand at its ends, channel."""


@dataclass(frozen=True, slots=True)
class AssignChannels:
    """channel c, instance j of n -> channel c n + j; an operation without a channel has channel 0.

    Threadblocks given by hand are spread in the same way, so that each instance has its own. Where several
    threadblocks by hand share a pair of ranks and the program names no channel, each gets its own, because a
    connection has one threadblock on each side. Turned off, all instances share the channels and
    threadblocks of the program.
    """

    name: str = "assign_channels"

    def apply(self, dag: InstructionDag, options: CompileOptions) -> InstructionDag:
        """One set of channels per instance."""
        rows = _with_channels(dag)
        instance = rows["instance"].astype(np.int64)
        num_instances = int(instance.max()) + 1 if len(rows) else 1
        rows["channel"] = rows["channel"] * num_instances + instance
        rows["threadblock"] = _spread(rows["threadblock"], num_instances, instance)
        return replace(dag, instructions=rows)

    def skip(self, dag: InstructionDag, options: CompileOptions) -> InstructionDag:
        """The channels of the program, for all instances alike."""
        return replace(dag, instructions=_with_channels(dag))


def _spread(
    chosen: npt.NDArray[np.int32], num_instances: int, instance: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    return np.where(chosen == AUTOMATIC, AUTOMATIC, chosen.astype(np.int64) * num_instances + instance)


def _with_channels(dag: InstructionDag) -> Rows:
    rows = dag.instructions.copy()
    if ((rows["threadblock"] != AUTOMATIC) & (rows["channel"] == AUTOMATIC)).any():
        _separate_threadblocks(rows)
    rows["channel"] = np.maximum(rows["channel"], 0)
    return rows


def _separate_threadblocks(rows: Rows) -> None:
    """Give rows of threadblocks by hand the lowest channel on which each connection has one of them."""
    links = _links_by_hand(rows)
    group = _connected(links)
    fixed = {group[b]: channel for _, blocks, channel in links for b in blocks if channel != AUTOMATIC}
    pairs: dict[Block, set[tuple[int, int]]] = defaultdict(set)
    for pair, blocks, _ in links:
        pairs[group[blocks[0]]].add(pair)
    chosen: dict[Block, int] = {}
    taken: dict[tuple[int, int], set[int]] = defaultdict(set)
    for root in [*fixed, *(root for root in pairs if root not in fixed)]:
        used = set[int]().union(*(taken[pair] for pair in pairs[root]))
        chosen[root] = fixed.get(root, next(c for c in range(len(used) + 1) if c not in used))
        for pair in pairs[root]:
            taken[pair].add(chosen[root])
    free = (rows["threadblock"] != AUTOMATIC) & (rows["channel"] == AUTOMATIC)
    places = np.stack([rows["rank"][free].astype(np.int64), rows["threadblock"][free]], axis=1)
    names, where = np.unique(places, axis=0, return_inverse=True)
    channels = [chosen.get(group.get((rank, block), (rank, block)), 0) for rank, block in names.tolist()]
    rows["channel"][free] = np.array(channels)[where.reshape(-1)]


def _links_by_hand(rows: Rows) -> list[Link]:
    """(source, destination), the threadblocks by hand at its ends, channel: each once, in program order."""
    sends, receives = rows[rows["send_peer"] != NO_PEER], rows[rows["recv_peer"] != NO_PEER]
    operation = sends["send_operation"].astype(np.int64)
    receiving = np.full(int(operation.max(initial=-1)) + 1, AUTOMATIC, np.int64)
    receiving[receives["recv_operation"]] = receives["threadblock"]
    columns = (
        sends["rank"],
        sends["send_peer"],
        sends["threadblock"],
        receiving[operation],
        sends["channel"],
    )
    table = np.stack([column.astype(np.int64) for column in columns], axis=1)[np.argsort(operation)]
    _, first = np.unique(table, axis=0, return_index=True)
    links: list[Link] = []
    for src, dst, send_block, recv_block, channel in table[np.sort(first)].tolist():
        ends = ((src, send_block), (dst, recv_block))
        blocks = tuple(end for end in ends if end[1] != AUTOMATIC)
        if blocks:
            links.append(((src, dst), blocks, channel))
    return links


def _connected(links: list[Link]) -> dict[Block, Block]:
    """Threadblocks at two ends of a link share a channel: block -> one that stands for all of its group."""
    parent: dict[Block, Block] = {}

    def root(block: Block) -> Block:
        parent.setdefault(block, block)
        while parent[block] != block:
            parent[block] = parent[parent[block]]
            block = parent[block]
        return block

    for _, blocks, _ in links:
        for block in blocks:
            parent[root(block)] = root(blocks[0])
    return {block: root(block) for block in parent}
