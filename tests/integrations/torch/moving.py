"""Run on every rank: collectives that only move data."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from integrations.torch.data import elements
from integrations.torch.reducing import LENGTHS, same


def broadcast_from_every_root(dtype: torch.dtype) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    for root in range(size):
        for length in LENGTHS:
            tensor = elements(rank, length, torch.float32).to(dtype)
            dist.broadcast(tensor, root)
            same(tensor, elements(root, length, torch.float32).to(dtype))


def all_gather(dtype: torch.dtype) -> None:
    """Into a list of separate tensors, into neighbours in memory, into one tensor, and in place."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for length in LENGTHS:
        own = elements(rank, length, torch.float32).to(dtype)
        expected = torch.stack([elements(peer, length, torch.float32).to(dtype) for peer in range(size)])
        apart = [torch.empty(length, dtype=dtype) for _ in range(size)]
        dist.all_gather(apart, own)
        same(torch.stack(apart), expected)
        rows = torch.empty(size, length, dtype=dtype)
        dist.all_gather(list(rows), own)
        same(rows, expected)
        whole = torch.empty(size, length, dtype=dtype)
        dist.all_gather_single(whole, own)
        same(whole, expected)
        whole = torch.empty(size, length, dtype=dtype)
        whole[rank] = own
        dist.all_gather_single(whole.view(-1), whole[rank])
        same(whole, expected)


def all_gather_of_different_sizes() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    outputs = [torch.empty(5 * peer + 1) for peer in range(size)]
    dist.all_gather(outputs, elements(rank, 5 * rank + 1, torch.float32))
    for peer, output in enumerate(outputs):
        same(output, elements(peer, 5 * peer + 1, torch.float32))


def all_gather_coalesced() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    lengths = (4, 0, 9)
    outputs = [torch.empty(size * length) for length in lengths]
    with dist.distributed_c10d._coalescing_manager():
        for output, length in zip(outputs, lengths, strict=True):
            dist.all_gather_single(output, elements(rank, length, torch.float32))
    for output, length in zip(outputs, lengths, strict=True):
        same(output, torch.cat([elements(peer, length, torch.float32) for peer in range(size)]))
    table = [[torch.empty(length) for length in lengths] for _ in range(size)]
    group = dist.group.WORLD
    assert group is not None
    group.allgather_coalesced(table, [elements(rank, length, torch.float32) for length in lengths]).wait()
    for peer, row in enumerate(table):
        for output, length in zip(row, lengths, strict=True):
            same(output, elements(peer, length, torch.float32))


def all_to_all(dtype: torch.dtype) -> None:
    """Equal parts; rows by rows with empty splits; lists of tensors of any size."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for length in LENGTHS:
        output = torch.empty(length * size, dtype=dtype)
        dist.all_to_all_single(output, parcel(rank, size, length, dtype))
        same(
            output,
            torch.cat([parcel(peer, size, length, dtype)[rank * length :][:length] for peer in range(size)]),
        )

    rows_to = [(rank * peer) % 3 for peer in range(size)]
    rows_from = [(rank * peer) % 3 for peer in range(size)]
    sent = elements(rank, sum(rows_to) * 5, torch.float32).to(dtype).view(-1, 5)
    received = torch.empty(sum(rows_from), 5, dtype=dtype)
    dist.all_to_all_single(received, sent, rows_from, rows_to)
    expected = []
    for peer in range(size):
        theirs = [(peer * other) % 3 for other in range(size)]
        matrix = elements(peer, sum(theirs) * 5, torch.float32).to(dtype).view(-1, 5)
        expected.append(matrix[sum(theirs[:rank]) : sum(theirs[: rank + 1])])
    same(received, torch.cat(expected))

    inputs = [elements(rank + peer, rank + 2 * peer, torch.float32).to(dtype) for peer in range(size)]
    outputs = [torch.empty(peer + 2 * rank, dtype=dtype) for peer in range(size)]
    dist.all_to_all(outputs, inputs)
    for peer, found in enumerate(outputs):
        same(found, elements(peer + rank, peer + 2 * rank, torch.float32).to(dtype))


def parcel(rank: int, size: int, length: int, dtype: torch.dtype) -> torch.Tensor:
    return elements(rank, length * size, torch.float32).to(dtype)


def gather_and_scatter(dtype: torch.dtype) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    for root in range(size):
        for length in LENGTHS:
            own = elements(rank, length, torch.float32).to(dtype)
            outputs = [torch.empty(length, dtype=dtype) for _ in range(size)] if rank == root else None
            dist.gather(own, outputs, dst=root)
            for peer, output in enumerate(outputs or []):
                same(output, elements(peer, length, torch.float32).to(dtype))
            inputs = [elements(root + peer, length, torch.float32).to(dtype) for peer in range(size)]
            output = torch.empty(length, dtype=dtype)
            dist.scatter(output, inputs if rank == root else None, src=root)
            same(output, elements(root + rank, length, torch.float32).to(dtype))


def pairs() -> None:
    """Around the ring: blocking, by tag in another order than sent, and in a batch."""
    rank, size = dist.get_rank(), dist.get_world_size()
    after, before = (rank + 1) % size, (rank - 1) % size
    tensor = torch.zeros(33)
    if rank % 2 == 0:
        dist.send(elements(rank, 33, torch.float32), after)
        assert dist.recv(tensor, before) == before
    else:
        assert dist.recv(tensor, before) == before
        dist.send(elements(rank, 33, torch.float32), after)
    same(tensor, elements(before, 33, torch.float32))

    sent = [dist.isend(elements(rank + tag, 9, torch.float32), after, tag=tag) for tag in (1, 2, 3)]
    for tag in (3, 1, 2):
        tensor = torch.zeros(9)
        dist.recv(tensor, before, tag=tag)
        same(tensor, elements(before + tag, 9, torch.float32))
    for work in sent:
        assert work is not None
        work.wait()

    large, there, back = 300_000, torch.zeros(300_000), torch.zeros(300_000)
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.irecv, there, before),
            dist.P2POp(dist.irecv, back, after),
            dist.P2POp(dist.isend, elements(rank, large, torch.float32), after),
            dist.P2POp(dist.isend, elements(rank + 1, large, torch.float32), before),
        ]
    )
    for work in works:
        work.wait()
    same(there, elements(before, large, torch.float32))
    same(back, elements(after + 1, large, torch.float32))


def objects() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    own = {"rank": rank, "text": "x" * 10 * rank}
    everyone = [{"rank": peer, "text": "x" * 10 * peer} for peer in range(size)]
    gathered: list[Any] = [None] * size
    dist.all_gather_object(gathered, own)
    assert gathered == everyone
    shared: list[Any] = [own, rank]
    dist.broadcast_object_list(shared, src=2)
    assert shared == [everyone[2], 2]
    at_one: list[Any] | None = [None] * size if rank == 1 else None
    dist.gather_object(own, at_one, dst=1)
    assert at_one is None or at_one == everyone
    mine: list[Any] = [None]
    dist.scatter_object_list(mine, everyone if rank == 3 else None, src=3)
    assert mine == [own]
    if rank == 0:
        dist.send_object_list([own, "more"], dst=1)
    elif rank == 1:
        pair: list[Any] = [None, None]
        dist.recv_object_list(pair, src=0)
        assert pair == [everyone[0], "more"]
