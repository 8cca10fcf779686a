"""What the ranks of a job do in the tests of start-up and of several hosts."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from hemiola import Communicator
from hemiola.errors import ConnectError, PeerLostError
from runtime.every_collective import check_every_collective
from runtime.listening import listening_at


def add_up() -> dict[str, Any]:
    """One sum; who this rank is, and what came out."""
    with Communicator() as group:
        array = np.full(1000, 2.0**group.rank, np.float32)
        group.all_reduce(array)
        return {
            "rank": group.rank,
            "size": group.world_size,
            "hosts": group.hosts,
            "sum": sorted(set(array.tolist())),
        }


def add_up_through_torch() -> dict[str, Any]:
    """The same, with PyTorch's store as the place to meet."""
    from torch.distributed.rendezvous import rendezvous

    store, rank, size = next(iter(rendezvous("env://")))
    with Communicator(rank, size, store=store) as group:
        array = np.full(1000, 2.0**group.rank, np.float32)
        group.all_reduce(array)
        return {"rank": group.rank, "size": size, "sum": sorted(set(array.tolist()))}


def check_collectives(*lengths: str) -> list[int]:
    """Every collective with arrays of every length; the hosts of the ranks."""
    with Communicator() as group:
        for length in map(int, lengths):
            check_every_collective(group, length)
        return list(group.hosts)


def lose_somebody(path: str) -> dict[str, Any]:
    """Sum until a rank is lost; a file says that this rank has begun."""
    group = Communicator()
    array = np.ones(300_001, np.float32)
    try:
        while True:
            array[:] = 1
            group.all_reduce(array)
            assert (array == group.world_size).all()
            Path(path, f"{group.rank}.{os.getpid()}").touch()
    except PeerLostError as error:
        return {"lost": error.rank, "message": str(error)}
    finally:
        group.close()


def report_network() -> dict[str, Any]:
    """Where this rank listens, and how many bytes each interface sent in 8 sums of 4 MiB."""
    with Communicator() as group:
        array = np.ones(1 << 20, np.float32)
        group.all_reduce(array)
        group.barrier()
        before = _sent_bytes()
        for _ in range(8):
            group.all_reduce(array)
        group.barrier()
        after = _sent_bytes()
        listening = [address for address, _ in listening_at(os.getpid())]
        group.barrier()
        return {"listening": listening, "sent": {name: after[name] - before[name] for name in after}}


def _sent_bytes() -> dict[str, int]:
    return {
        path.name: int((path / "statistics" / "tx_bytes").read_text())
        for path in Path("/sys/class/net").iterdir()
    }


def knock(attempts: str = "1") -> list[str]:
    """Try to join; what is said to a process that does not belong."""
    said = []
    for _ in range(int(attempts)):
        try:
            Communicator(timeout=20)
        except ConnectError as error:
            said.append(str(error))
    return said


def wait_then_add_up(seconds: str) -> dict[str, Any]:
    """Come late."""
    time.sleep(float(seconds))
    return add_up()


def train_with_torch() -> dict[str, Any]:
    """Collectives of torch.distributed, with the backend by its name."""
    import torch
    import torch.distributed as dist

    import hemiola.torch  # noqa: F401

    torch.set_num_threads(1)
    dist.init_process_group("hemiola")
    rank, size = dist.get_rank(), dist.get_world_size()
    tensor = torch.full((100_003,), float(rank + 1))
    dist.all_reduce(tensor)
    assert (tensor == size * (size + 1) / 2).all()
    parts = [torch.empty(17) for _ in range(size)]
    dist.all_gather(parts, torch.full((17,), float(rank)))
    assert [part.tolist() for part in parts] == [[float(k)] * 17 for k in range(size)]
    objects: list[object] = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": k} for k in range(size)]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(33, 5))
    model(torch.full((2, 33), float(rank))).sum().backward()
    gradients = [parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None]
    found = float(torch.cat(gradients).sum())
    dist.barrier()
    dist.destroy_process_group()
    return {"rank": rank, "gradients": found}
