"""assign_channels: every instance gets channels of its own."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hemiola.compiler.options import CompileOptions
from hemiola.ir.chunk_dag import AUTOMATIC
from hemiola.ir.instruction_dag import NO_OPERATION, InstructionDag
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
        num_instances = int(instance.max(initial=0)) + 1
        if num_instances == 1:
            return replace(dag, instructions=rows)
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
        _separate_threadblocks(rows, dag.num_operations)
    rows["channel"] = np.maximum(rows["channel"], 0)
    return rows


def _separate_threadblocks(rows: Rows, num_operations: int) -> None:
    """Give messages of threadblocks by hand the lowest channel on which each connection has one of them."""
    links = _links_by_hand(rows)
    group = _connected(links)
    chosen = _choose_channels(links, group)
    by_link = {(pair, blocks): chosen[group[blocks[0]]] for pair, blocks, _ in links}
    channel = np.full(num_operations, AUTOMATIC, np.int64)
    table, operations = _ends_by_operation(rows)
    names, where = np.unique(table, axis=0, return_inverse=True)
    found = [by_link.get((pair, blocks), AUTOMATIC) for pair, blocks in map(_link_of, names[:, :4].tolist())]
    channel[operations] = np.array(found, np.int64)[where.reshape(-1)]
    for operation in ("send_operation", "recv_operation"):
        mine = (rows["channel"] == AUTOMATIC) & (rows[operation] != NO_OPERATION)
        rows["channel"][mine] = channel[rows[operation][mine]]


def _choose_channels(links: list[Link], group: dict[Block, Block]) -> dict[Block, int]:
    fixed = {group[b]: channel for _, blocks, channel in links for b in blocks if channel != AUTOMATIC}
    pairs: dict[Block, set[tuple[int, int]]] = defaultdict(set)
    for pair, blocks, _ in links:
        pairs[group[blocks[0]]].add(pair)
    chosen: dict[Block, int] = {}
    taken: dict[tuple[int, int], set[int]] = defaultdict(set)
    lowest: dict[tuple[int, int], int] = defaultdict(int)
    for root in [*fixed, *(root for root in pairs if root not in fixed)]:
        channel = fixed.get(root, max(lowest[pair] for pair in pairs[root]))
        while root not in fixed and any(channel in taken[pair] for pair in pairs[root]):
            channel += 1
        chosen[root] = channel
        for pair in pairs[root]:
            taken[pair].add(channel)
            while lowest[pair] in taken[pair]:
                lowest[pair] += 1
    return chosen


def _ends_by_operation(rows: Rows) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Per message, in program order: source, destination, threadblock at each end, channel; and its operation."""
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
    order = np.argsort(operation)
    return np.stack([column.astype(np.int64) for column in columns], axis=1)[order], operation[order]


def _link_of(ends: list[int]) -> tuple[tuple[int, int], tuple[Block, ...]]:
    src, dst, send_block, recv_block = ends
    both = ((src, send_block), (dst, recv_block))
    return (src, dst), tuple(end for end in both if end[1] != AUTOMATIC)


def _links_by_hand(rows: Rows) -> list[Link]:
    """(source, destination), the threadblocks by hand at its ends, channel: each once, in program order."""
    table, _ = _ends_by_operation(rows)
    _, first = np.unique(table, axis=0, return_index=True)
    links = [(*_link_of(row[:4]), row[4]) for row in table[np.sort(first)].tolist()]
    return [link for link in links if link[1]]


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
