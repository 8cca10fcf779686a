"""What surrounds the collectives: waiting, groups, functional collectives, refusals, beginning and end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from integrations.torch import functional, grouping, mistakes, waiting
from integrations.torch.torch_ranks import TorchRanks

LEAVES_WITHOUT_A_WORD = """
import sys
import torch
import torch.distributed as dist
import hemiola.torch
rank, store = int(sys.argv[1]), dist.FileStore(sys.argv[2], 2)
dist.init_process_group("hemiola", store=store, rank=rank, world_size=2)
tensor = torch.ones(1000)
dist.all_reduce(tensor)
work = dist.all_reduce(tensor, async_op=True)
work.wait()
print(tensor[0].item())
"""


@pytest.mark.parametrize(
    "check",
    [
        waiting.many_in_flight,
        waiting.polled,
        waiting.futures,
        waiting.barrier_with_a_timeout,
        waiting.coalesced_on_a_device,
        grouping.subsets,
        grouping.beside_gloo,
        grouping.mesh,
        functional.every_one,
        functional.compiled,
        functional.redistributed,
        grouping.made_again,
    ],
)
def test_process_group(ranks: TorchRanks, check: Callable[[], None]) -> None:
    ranks.run(check)


def test_the_group_says_who_it_is(ranks: TorchRanks) -> None:
    answers = ranks.run(grouping.about_itself)
    assert answers == [("hemiola", "hemiola", "default_pg", rank, 4) for rank in range(4)]


def test_mistakes_are_named(ranks: TorchRanks) -> None:
    answers = ranks.run(mistakes.refusals)
    assert all(answer == answers[0] for answer in answers)
    expected = {
        "int16": "all_reduce got elements of type int16",
        "bxor": "all_reduce got operator BXOR, which backend hemiola does not have for int32; it has SUM",
        "bool avg": "all_reduce got operator AVG, which backend hemiola does not have for bool",
        "complex max": "reduce got operator MAX, which backend hemiola does not have for complex64",
        "premul": "scale the tensor first and use SUM",
        "device": "all_reduce got a tensor on meta, and backend hemiola moves CPU memory only",
        "sparse": "moves dense ones only",
        "any source": "recv got no source",
        "monitored": "use barrier(timeout=...)",
        "too small": "all_gather_single got a tensor of 4 elements for 4 parts of 2; it needs 8",
        "too large": "reduce_scatter_single got a tensor of 9 elements for 4 parts of 2; it needs 8",
        "types": "all_gather_single got tensors of types torch.float32 and torch.int32",
        "list": "all_gather got a list of 3 tensors in a group of 4 ranks",
        "splits": "input_split_sizes [2, 2, 2, 2] for 4 rows and 4 ranks",
        "rows": "5 rows, which 4 ranks cannot share equally",
        "options": "takes no pg_options",
        "counts": "all_gather_single_coalesced got 1 outputs for 2 inputs",
        "set timeout": "cannot change it to 0:00:05",
    }
    for mistake, sentence in expected.items():
        assert sentence in answers[0][mistake], mistake


def test_leaving_without_destroying_the_group_does_not_hang(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LEAVES_WITHOUT_A_WORD]
    ranks = [
        subprocess.Popen(
            [*command, str(rank), str(tmp_path / "store")], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for rank in range(2)
    ]
    for process in ranks:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out.strip(), err) == (0, b"4.0", b""), err.decode()
