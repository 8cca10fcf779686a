"""Why slots: a peer's memory read by the kernel (process_vm_readv) against the same bytes through a slot.

    python benchmarks/direct_reading.py [--sizes 4MiB,64MiB] [--piece 256KiB] [--rounds 15]

Two processes, both busy, in turn: each reads the other's array piece by piece into a small buffer; or it does what a
slot costs the two ends together, a copy out of its own array into a small buffer and another one from there. Rates are
medians of one process in bytes per second, with the slowest and the quickest round.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import time
from collections.abc import Callable

import click
import numpy as np

from hemiola import _core
from hemiola.report.machine import describe_machine
from hemiola.runtime.bootstrap.store import Store
from hemiola.runtime.communicator.numbers import NumpyArray
from hemiola.runtime.launch import run_ranks
from hemiola.units import format_bandwidth, format_bytes, parse_bytes

WAYS = ("kernel", "slot")


class Span(ctypes.Structure):
    """iovec: where bytes begin and how many they are."""

    _fields_ = (("begin", ctypes.c_void_p), ("size", ctypes.c_size_t))


LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.process_vm_readv.restype = ctypes.c_ssize_t


def read(pid: int, address: int, into: NumpyArray) -> None:
    """Bytes of another process, from an address there."""
    here, there = Span(into.ctypes.data, into.nbytes), Span(address, into.nbytes)
    done = LIBC.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    if done != into.nbytes:
        raise OSError(ctypes.get_errno(), f"reading {into.nbytes} bytes of process {pid} gave {done}")


def measure(rank: int, store: Store, size: int, piece: int, rounds: int) -> dict[str, list[float]]:
    """Rates of one process, round by round."""
    array, slot, target = (np.full(number, rank + 1, np.uint8) for number in (size, piece, piece))
    store.set(f"where/{size}/{rank}", f"{os.getpid()} {array.ctypes.data}".encode())
    pid, address = map(int, store.get(f"where/{size}/{1 - rank}").decode().split())

    def by_kernel() -> None:
        for begin in range(0, size, piece):
            read(pid, address + begin, target)

    def by_slot() -> None:
        for begin in range(0, size, piece):
            _core.copy(slot, array[begin : begin + piece], False)
            _core.copy(target, slot, False)

    by_kernel()
    if not (target == 2 - rank).all():
        raise RuntimeError("the peer's bytes are not those that were read")
    work: dict[str, Callable[[], None]] = dict(zip(WAYS, (by_kernel, by_slot), strict=True))
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(rounds):
        for way in WAYS:
            mark = f"{size}/{number}/{way}"
            store.set(f"{mark}/{rank}", b"")
            store.get(f"{mark}/{1 - rank}")
            begin = time.perf_counter()
            work[way]()
            rates[way].append(size / (time.perf_counter() - begin))
    store.set(f"done/{size}/{rank}", b"")
    store.get(f"done/{size}/{1 - rank}")
    return rates


@click.command()
@click.option("--sizes", default="4MiB,64MiB", show_default=True)
@click.option("--piece", default="256KiB", show_default=True)
@click.option("--rounds", default=15, show_default=True)
def main(sizes: str, piece: str, rounds: int) -> None:
    """Measure and print."""
    print(describe_machine())
    print(f"{'array':>8}  {'by the kernel':>32}  {'through a slot, both ends':>32}  slot / kernel")
    for size in map(parse_bytes, sizes.split(",")):
        found = run_ranks(2, measure, size, parse_bytes(piece), rounds, kind="processes")
        both = {way: [rate for rank in found for rate in rank[way]] for way in WAYS}
        middle = {way: statistics.median(rates) for way, rates in both.items()}
        cells = [
            f"{format_bandwidth(middle[way])} ({format_bandwidth(min(both[way]))} to {format_bandwidth(max(both[way]))})"
            for way in WAYS
        ]
        print(
            f"{format_bytes(size):>8}  {cells[0]:>32}  {cells[1]:>32}  {middle['slot'] / middle['kernel']:>13.2f}"
        )


if __name__ == "__main__":
    main()
