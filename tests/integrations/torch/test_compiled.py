"""torch.compile captures around the calls of the backend, as it does around those of Gloo."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from integrations.torch import compiled
from integrations.torch.torch_ranks import TorchRanks


def test_there_are_fourteen() -> None:
    assert len(compiled.CALLS) == 14


@pytest.mark.parametrize("name", compiled.CALLS)
def test_a_compiled_call_gives_what_it_gives_otherwise(ranks: TorchRanks, name: str) -> None:
    ranks.run(compiled.as_without_compiler, name)


def test_ddp_trains_under_the_compiler(ranks: TorchRanks) -> None:
    for plain, under_compiler in ranks.run(compiled.data_parallel):
        assert under_compiler == pytest.approx(plain, rel=1e-4)


def test_the_backend_does_not_import_the_compiler() -> None:
    code = "import sys, hemiola.torch; sys.exit('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
