"""How long commands take from start to end: CPU seconds of whole processes, the interpreter's start among them.

    python benchmarks/start_up.py [--repeat 9] [--only NAME ...]

CPU seconds are user and system time of a process and its threads, as the kernel counts them. Other work on the
machine lengthens them too, so the fastest run stands beside the median and the slowest. Python may write its byte
code, as on a user's machine, and the first run of every row is not counted.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

from hemiola.report.machine import describe_machine

COMMAND = str(Path(sys.executable).with_name("hemiola"))
SIMULATE = (COMMAND, "simulate", "allreduce_hierarchical", "--bytes", "64MiB", "--system")

ROWS: dict[str, tuple[str, ...]] = {
    "python": (sys.executable, "-c", "pass"),
    "import numpy": (sys.executable, "-c", "import numpy"),
    "import hemiola": (sys.executable, "-c", "import hemiola"),
    "hemiola --help": (COMMAND, "--help"),
    "hemiola show --help": (COMMAND, "show", "--help"),
    "hemiola simulate --help": (COMMAND, "simulate", "--help"),
    "hemiola synthesize --help": (COMMAND, "synthesize", "--help"),
    "simulate, dgx-a100:128": (*SIMULATE, "dgx-a100:128"),
    "simulate, azure-ndv4:128": (*SIMULATE, "azure-ndv4:128"),
    "simulate, mi300x:128": (*SIMULATE, "mi300x:128"),
}
"""The last three have 1024 ranks."""


def cpu_seconds(command: tuple[str, ...]) -> float:
    """User and system time of one process."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure every row."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--only", action="append", choices=list(ROWS))
    arguments = parser.parse_args()
    print(f"{describe_machine()}; CPU seconds of {arguments.repeat} runs")
    print(f"{'':26} {'median':>7} {'fastest':>8} {'slowest':>8}")
    for name in arguments.only or ROWS:
        cpu_seconds(ROWS[name])
        runs = [cpu_seconds(ROWS[name]) for _ in range(arguments.repeat)]
        print(f"{name:26} {statistics.median(runs):7.2f} {min(runs):8.2f} {max(runs):8.2f}")


if __name__ == "__main__":
    main()
