"""ReductionExecutor: runs a reduction program with calls of torch.distributed on sub-groups, on any backend.

```
program = parse_program("reducescatter(1, InsideGroup); allreduce(1, Parallel(0)); allgather(1, InsideGroup)", 2)
reduction = ReductionExecutor(program, (2, 4), [range(8)])   # on every rank of the world, in the same order
reduction.all_reduce(gradients)
```

A group of torch has its members in the order of their ranks, a program in the order of its hierarchy. Blocks are
therefore permuted into the order of ranks before a call, and back after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
import torch.distributed as dist

from hemiola.collectives import CollectiveKind
from hemiola.errors import ReductionError
from hemiola.integrations.torch.tensors import is_in_order
from hemiola.synthesis.chunk_ownership import Rows, group_steps
from hemiola.synthesis.program import ReductionProgram

# Newer releases of torch have other names for these functions.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


@dataclass(frozen=True, slots=True)
class _Call:
    """One step of the program on this rank."""

    collective: CollectiveKind
    members: tuple[int, ...]
    """The ranks in the world of the members, in the order of the hierarchy."""
    group: dist.ProcessGroup
    before: tuple[Rows, ...]
    after: tuple[Rows, ...]
    own: int
    """The index of this rank among the members."""

    @property
    def by_rank(self) -> list[int]:
        """The indices of the members, sorted by rank, which is the order of the group."""
        return sorted(range(len(self.members)), key=lambda number: self.members[number])


class ReductionExecutor:
    """Runs a program in several reduction groups at once. All ranks of the world must make the executor together."""

    def __init__(
        self,
        program: ReductionProgram,
        factors: Sequence[int],
        groups: Sequence[Sequence[int]],
        *,
        request: CollectiveKind = CollectiveKind.ALLREDUCE,
        backend: str | None = None,
    ) -> None:
        """``groups`` are disjoint, each with its ranks in the order of the hierarchy of ``factors``."""
        self.num_chunks = prod(factors)
        _check_groups(groups, self.num_chunks)
        rank = dist.get_rank()
        made: dict[tuple[int, ...], dist.ProcessGroup] = {}
        self._calls: list[_Call] = []
        for steps in group_steps(program, tuple(factors), request):
            for ranks in groups:
                for step in steps:
                    members = tuple(ranks[member] for member in step.members)
                    key = tuple(sorted(members))
                    if key not in made:
                        made[key] = dist.new_group(list(key), backend=backend)
                    if rank in members:
                        self._calls.append(
                            _Call(
                                step.instruction.collective,
                                members,
                                made[key],
                                step.before,
                                step.after,
                                members.index(rank),
                            )
                        )
        self._groups = [group for key, group in made.items() if rank in key]

    def all_reduce(self, tensor: torch.Tensor) -> None:
        """Sum a tensor of any shape over this rank's reduction group, in place.

        The steps work on the memory of the tensor where it is contiguous and its elements divide evenly.
        """
        data, num_elements = tensor.detach(), tensor.numel()
        if is_in_order(data) and num_elements % self.num_chunks == 0:
            self.run(data.view(self.num_chunks, num_elements // self.num_chunks))
            return
        share = -(-num_elements // self.num_chunks)
        buffer = data.new_zeros(self.num_chunks * share)
        buffer[:num_elements] = data.reshape(-1)
        self.run(buffer.view(self.num_chunks, share))
        data.copy_(buffer[:num_elements].view(data.shape))

    def run(self, chunks: torch.Tensor) -> None:
        """Run the program in place on a tensor whose first dimension is that of the chunks."""
        if chunks.shape[0] != self.num_chunks or not chunks.is_contiguous():
            raise ReductionError(
                f"a reduction over {self.num_chunks} devices needs a contiguous tensor of as many chunks, but has one of"
                f" shape {list(chunks.shape)}"
            )
        for call in self._calls:
            _run(call, chunks)

    def close(self) -> None:
        """Leave the sub-groups of this rank."""
        for group in self._groups:
            dist.destroy_process_group(group)
        self._groups, self._calls = [], []


def _check_groups(groups: Sequence[Sequence[int]], size: int) -> None:
    ranks = [rank for group in groups for rank in group]
    if any(len(group) != size for group in groups) or len(set(ranks)) != len(ranks):
        raise ReductionError(
            f"reduction groups are disjoint and have {size} ranks each, but are {[list(group) for group in groups]}"
        )


def _run(call: _Call, chunks: torch.Tensor) -> None:
    before = call.before[call.own]
    match call.collective:
        case CollectiveKind.ALLREDUCE:
            part = _take(chunks, before)
            dist.all_reduce(part, group=call.group)
            _put(chunks, before, part)
        case CollectiveKind.REDUCE:
            part = _take(chunks, before)
            dist.reduce(part, dst=call.members[0], group=call.group)
            if call.own == 0:
                _put(chunks, before, part)
        case CollectiveKind.BROADCAST:
            rows = call.before[0]
            part = _take(chunks, rows)
            dist.broadcast(part, src=call.members[0], group=call.group)
            _put(chunks, rows, part)
        case CollectiveKind.REDUCESCATTER:
            rows = tuple(row for number in call.by_rank for row in call.after[number])
            kept = call.after[call.own]
            part = torch.empty_like(_take(chunks, kept))
            _reduce_scatter(part, _take(chunks, rows), group=call.group)
            _put(chunks, kept, part)
        case CollectiveKind.ALLGATHER:
            rows = tuple(row for number in call.by_rank for row in call.before[number])
            own = _take(chunks, before).clone()
            gathered = _take(chunks, rows)
            _all_gather(gathered, own, group=call.group)
            _put(chunks, rows, gathered)


def _take(chunks: torch.Tensor, rows: Rows) -> torch.Tensor:
    """Some chunks as one contiguous tensor: a view where they are neighbours in order, otherwise a copy."""
    first = rows[0]
    if rows == tuple(range(first, first + len(rows))):
        return chunks[first : first + len(rows)]
    return chunks[list(rows)]


def _put(chunks: torch.Tensor, rows: Rows, part: torch.Tensor) -> None:
    """Write chunks back, unless ``part`` is a view of them."""
    if part.data_ptr() != chunks[rows[0]].data_ptr():
        chunks[list(rows)] = part
