"""The device in one line: what measured times depend on."""

from __future__ import annotations

import torch

from hemiola.report.machine import processor_name


def describe_device() -> str:
    """The processor, its vector instructions, and the version of PyTorch."""
    capability = torch.backends.cpu.get_cpu_capability()
    return f"{processor_name()} ({capability}), PyTorch {torch.__version__}"
