"""The machine in one line, for the head of every table of measurements."""

from __future__ import annotations

import os
import platform
from pathlib import Path

CPU_INFO = Path("/proc/cpuinfo")


def describe_machine() -> str:
    """Processor, cores that this process may use, memory, kernel and Python."""
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{processor_name()}, {cores} {'core' if cores == 1 else 'cores'}, {memory:.0f} GiB, "
        f"Linux {platform.release()}, Python {platform.python_version()}"
    )


def processor_name() -> str:
    """As the processor calls itself."""
    try:
        lines = CPU_INFO.read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
