"""The end of a process that still has works, futures and groups: it ends, and says nothing."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

BEGIN = """
import contextlib, sys, threading, time
import torch, torch.distributed as dist, hemiola.errors, hemiola.torch
rank = int(sys.argv[1])
torch.set_num_threads(1)
dist.init_process_group("hemiola", store=dist.FileStore(sys.argv[2], 2), rank=rank, world_size=2)
"""
ENDS = {
    "works that ended": """
        works = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(5)]
        futures = [work.get_future().then(lambda done: done.value()) for work in works]
        for work in works: work.wait()
    """,
    "works under way": """
        works = [dist.all_reduce(torch.ones(1 << 20), async_op=True) for _ in range(20)]
        futures = [work.get_future().then(lambda done: done.value()) for work in works]
    """,
    "several groups": """
        groups = [dist.new_group(backend="hemiola") for _ in range(3)]
        works = [dist.all_reduce(torch.ones(1 << 16), group=group, async_op=True) for group in groups]
    """,
    "a thread that waits": """
        work = dist.all_reduce(torch.ones(1000), async_op=True)
        def wait():
            with contextlib.suppress(hemiola.errors.PeerLostError):
                dist.recv(torch.empty(1), 1)
        if rank == 0:
            threading.Thread(target=wait, daemon=True).start()
        work.wait()
        time.sleep(0.3)
    """,
    "destroyed with works under way": """
        works = [dist.all_reduce(torch.ones(1 << 20), async_op=True) for _ in range(20)]
        futures = [work.get_future() for work in works]
        dist.destroy_process_group()
        assert all(float(future.wait()[0][0]) == 2 for future in futures)
    """,
}


@pytest.mark.parametrize("name", ENDS)
def test_a_process_ends_quietly_with(name: str, tmp_path: Path) -> None:
    code = BEGIN + textwrap.dedent(ENDS[name])
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(rank), str(tmp_path / "store")],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [rank.communicate(timeout=180)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert (said, [rank.returncode for rank in ranks]) == (["", ""], [0, 0])
