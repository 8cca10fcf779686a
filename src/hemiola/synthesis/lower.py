"""lower: a reduction program as a chunk program, with an algorithm of the library for each step.

The data has a chunk for every device. A step's groups are disjoint, and each runs the exchange or the chain of its
collective on the chunks that its members hold; nothing waits for a whole step, only chunks for chunks, so that
compiled into one plan the steps form a pipeline. ``instances`` cuts every chunk into pieces that follow each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import count, islice, pairwise
from math import prod

from hemiola.algorithms.buffer_places import Block, GatherPlace, Run, SumPlace
from hemiola.algorithms.exchanges import EXCHANGES, RING, Exchange
from hemiola.algorithms.start_program import find_protocol
from hemiola.algorithms.trees import Tree, chain, complementary_trees, in_order_tree
from hemiola.collectives import (
    AllGather,
    AllReduce,
    Broadcast,
    Collective,
    CollectiveKind,
    Reduce,
    ReduceScatter,
)
from hemiola.compiler.compile import Compiled, compile_program
from hemiola.errors import ReductionError
from hemiola.language.program import INPUT, OUTPUT, Program
from hemiola.synthesis.chunk_ownership import GroupStep, Rows, group_steps
from hemiola.synthesis.program import ReductionProgram

TREES: Mapping[str, Callable[[Sequence[int]], Tree]] = {
    "chain": chain,
    "tree": lambda members: (
        in_order_tree(members[1:]).below(members[0]) if len(members) > 1 else chain(members)
    ),
}
"""By the name that options use; the first member is the root."""
SUMS = "sums"
"""Scratch for partial sums out of place, where the output has no place for all of them."""
TWO_TREES = "trees"
"""Instead of an exchange: all-reduces on two complementary trees, each for half of the chunks, all others on rings."""


def lower(
    program: ReductionProgram,
    factors: tuple[int, ...],
    *,
    request: CollectiveKind = CollectiveKind.ALLREDUCE,
    exchange: str = "ring",
    tree: str = "chain",
    instances: int = 1,
    protocol: str = "Simple",
    staged: bool = False,
    in_place: bool = True,
) -> Program:
    """The chunk program of one reduction group; rank r is device r of the group.

    ``staged`` gives every step channels of its own, so that tiles of all steps are on their way at once. Out of place,
    contributions are copied to where they are worked on first; the compiler forwards what is only read once.
    """
    if exchange not in (*EXCHANGES, TWO_TREES) or tree not in TREES:
        raise ReductionError(
            f"a step runs on an exchange of {', '.join(EXCHANGES)}, {TWO_TREES} and a tree of {', '.join(TREES)}, not on"
            f" {exchange!r} and {tree!r}"
        )
    collective, keep = _collective(request, prod(factors), in_place)
    p = Program(
        f"{request.value}_synthesized", collective, instances=instances, protocol=find_protocol(protocol)
    )
    if not in_place:
        _copy_in(p, keep)
    channels = count()
    for steps in group_steps(program, factors, request):
        ways = 2 if steps[0].instruction.collective is CollectiveKind.ALLREDUCE else 1
        stages = Stages(p, tuple(islice(channels, ways))) if staged else None
        for step in steps:
            if exchange == TWO_TREES and step.instruction.collective is CollectiveKind.ALLREDUCE:
                _on_two_trees(p, step, keep, stages)
            else:
                _lower_group(p, step, keep, EXCHANGES.get(exchange, RING), TREES[tree], stages)
    if not in_place:
        _copy_out(p, keep)
    return p


@dataclass(frozen=True, slots=True)
class Stages:
    """The channels of a step: one for its way in, and one more for the way back of an all-reduce."""

    program: Program
    channels: tuple[int, ...]

    def there(self) -> AbstractContextManager[None]:
        """What is inside goes by the first channel."""
        return self.program.channel(self.channels[0])

    def back(self) -> AbstractContextManager[None]:
        """What is inside goes by the last channel."""
        return self.program.channel(self.channels[-1])


def compile_reduction(
    program: ReductionProgram,
    factors: tuple[int, ...],
    *,
    request: CollectiveKind = CollectiveKind.ALLREDUCE,
    exchange: str = "ring",
    tree: str = "chain",
    instances: int = 1,
    staged: bool = False,
) -> Compiled:
    """The plan of one reduction group, proven."""
    return compile_program(
        lower(
            program,
            factors,
            request=request,
            exchange=exchange,
            tree=tree,
            instances=instances,
            staged=staged,
        )
    )


def _collective(kind: CollectiveKind, num_devices: int, in_place: bool) -> tuple[Collective, str]:
    """The collective, and the buffer whose indices are chunks, in which the steps work."""
    match kind:
        case CollectiveKind.ALLREDUCE:
            return AllReduce(num_devices, num_devices, in_place=in_place), INPUT if in_place else OUTPUT
        case CollectiveKind.REDUCESCATTER:
            return ReduceScatter(num_devices, 1, in_place=in_place), INPUT if in_place else SUMS
        case CollectiveKind.ALLGATHER:
            return AllGather(num_devices, 1, in_place=in_place), OUTPUT
        case CollectiveKind.REDUCE:
            collective = Reduce(num_devices, num_devices, root=0, in_place=in_place)
            return collective, INPUT if in_place else SUMS
        case CollectiveKind.BROADCAST:
            return Broadcast(num_devices, num_devices, root=0, in_place=in_place), OUTPUT
    raise ReductionError(f"there are no programs for {kind}")


def _copy_in(p: Program, keep: str) -> None:
    """Contributions from the input to their chunks in ``keep``."""
    for rank in range(p.num_ranks):
        held = p.collective.input_chunks(rank)
        if held:
            first = rank if p.collective.kind is CollectiveKind.ALLGATHER else 0
            p.chunk(rank, INPUT, 0, held).copy(rank, keep, first)


def _copy_out(p: Program, keep: str) -> None:
    """Sums from scratch to the output."""
    if keep == OUTPUT:
        return
    for rank in range(p.num_ranks):
        held = p.collective.output_chunks(rank)
        if held:
            first = rank if p.collective.kind is CollectiveKind.REDUCESCATTER else 0
            p.chunk(rank, keep, first, held).copy(rank, OUTPUT, 0)


def _lower_group(
    p: Program,
    step: GroupStep,
    keep: str,
    exchange: Exchange,
    tree: Callable[[Sequence[int]], Tree],
    stages: Stages | None,
) -> None:
    members, first = step.members, step.before[0]
    sums, gathers = SumPlace(keep, keep), GatherPlace(keep)
    with stages.there() if stages else nullcontext():
        match step.instruction.collective:
            case CollectiveKind.ALLREDUCE:
                share = len(first) // len(members)
                assert share * len(members) == len(first)
                blocks = _blocks([first[at : at + share] for at in range(0, len(first), share)])
                exchange.reduce_scatter(p, members, blocks, sums)
                with stages.back() if stages else nullcontext():
                    exchange.all_gather(p, members, blocks, gathers)
            case CollectiveKind.REDUCESCATTER:
                exchange.reduce_scatter(p, members, _blocks(step.after), sums)
            case CollectiveKind.ALLGATHER:
                exchange.all_gather(p, members, _blocks(step.before), gathers)
            case CollectiveKind.REDUCE:
                for row in first:  # one by one, so that they follow each other down the chain
                    _up(p, tree(members), keep, row)
            case CollectiveKind.BROADCAST:
                for row in first:
                    _down(p, tree(members), keep, row)


def _on_two_trees(p: Program, step: GroupStep, keep: str, stages: Stages | None) -> None:
    """Every other chunk goes up and down the second tree."""
    trees = complementary_trees(step.members)
    for number, row in enumerate(step.before[0]):
        tree = trees[number % 2]
        with stages.there() if stages else nullcontext():
            _up(p, tree, keep, row)
        with stages.back() if stages else nullcontext():
            _down(p, tree, keep, row)


def _up(p: Program, tree: Tree, keep: str, row: int) -> None:
    for child, parent in tree.edges:
        p.chunk(parent, keep, row).reduce(p.chunk(child, keep, row))


def _down(p: Program, tree: Tree, keep: str, row: int) -> None:
    for child, parent in reversed(tree.edges):
        p.chunk(parent, keep, row).copy(child, keep, row)


def _blocks(rows: Sequence[Rows]) -> list[Block]:
    """Every member's chunks as runs; as single chunks where their runs do not match."""
    runs = [runs_of(own) for own in rows]
    shapes = {tuple(count for _, count in own) for own in runs}
    return (
        [tuple(own) for own in runs] if len(shapes) == 1 else [tuple((row, 1) for row in own) for own in rows]
    )


def runs_of(rows: Rows) -> list[Run]:
    """Neighbouring chunks as one run."""
    ends = [at + 1 for at, (one, after) in enumerate(pairwise(rows)) if after != one + 1]
    bounds = [0, *ends, len(rows)]
    return [(rows[start], end - start) for start, end in pairwise(bounds) if end > start]
