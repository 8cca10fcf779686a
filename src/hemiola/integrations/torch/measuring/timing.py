"""time_calls: the seconds of one call, by blocks of calls that take turns with a reference kernel."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

BLOCK_SECONDS = 2e-3
"""A block repeats a short call until it takes about this long, so small operators are timed longer."""
NUM_BLOCKS = 11
MIN_BLOCKS = 3
MAX_SECONDS = 0.5
"""Of all blocks; of long calls there are fewer blocks, but never less than `MIN_BLOCKS`."""
REFERENCE_ELEMENTS = 1 << 17


@dataclass(frozen=True, slots=True)
class Timing:
    """What one process found out about one call."""

    seconds: float
    """The median over the blocks."""
    spread: float
    """Half of the distance between the quartiles of the blocks, relative to the median."""
    reference_seconds: float
    """Of the reference kernel beside it; where it is larger than elsewhere, something else used the machine."""


class ReferenceKernel:
    """A fixed amount of arithmetic on half a megabyte, which every process does between its blocks."""

    def __init__(self) -> None:
        self._numbers = torch.linspace(0.1, 1.0, REFERENCE_ELEMENTS)
        self._result = torch.empty_like(self._numbers)

    def __call__(self) -> None:
        torch.exp(self._numbers, out=self._result)
        self._result.sum()


def time_calls(call: Callable[[], object], reference: ReferenceKernel) -> Timing:
    """Processor seconds of this thread for one call: what other processes take away is not in them, what they evict from caches is."""
    call()
    calls, once = _calls_per_block(call)
    num_blocks = max(MIN_BLOCKS, min(NUM_BLOCKS, int(MAX_SECONDS / (calls * once))))
    blocks, references = [], []
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(num_blocks):
            references.append(_seconds(reference, 1))
            blocks.append(_seconds(call, calls) / calls)
    finally:
        if collecting:
            gc.enable()
    return _summary(blocks, references)


def _calls_per_block(call: Callable[[], object]) -> tuple[int, float]:
    """How many calls a block has, and the seconds of one; doubled until they can be measured."""
    calls = 1
    while True:
        seconds = _seconds(call, calls)
        if seconds >= BLOCK_SECONDS / 4:
            once = seconds / calls
            return max(1, round(BLOCK_SECONDS / once)), once
        calls *= 2


def _seconds(call: Callable[[], object], calls: int) -> float:
    begin = time.thread_time_ns()
    for _ in range(calls):
        call()
    return (time.thread_time_ns() - begin) * 1e-9


def _summary(blocks: list[float], references: list[float]) -> Timing:
    middle = statistics.median(blocks)
    first, _, third = statistics.quantiles(blocks, n=4, method="inclusive")
    return Timing(middle, (third - first) / 2 / middle, statistics.median(references))
