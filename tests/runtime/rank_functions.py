"""What ranks do in the tests of launch; at the top of a module, so that processes find it."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from hemiola.errors import PeerLostError
from hemiola.runtime.bootstrap.store import Store
from hemiola.runtime.launch import run_ranks


class UnfriendlyError(Exception):
    """An error that cannot be pickled and read back."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def say_rank(rank: int, store: Store, factor: int) -> tuple[int, int]:
    """Every rank tells the next one its number."""
    store.set(f"number/{rank}", str(factor * rank).encode())
    before = int(store.get(f"number/{max(rank - 1, 0)}"))
    return rank, before


def say_process(rank: int, store: Store) -> int:
    return os.getpid()


def fail(rank: int, store: Store, guilty: int, what: str) -> None:
    """One rank fails on its own; the others lose it, a little earlier or later."""
    if rank != guilty:
        time.sleep(0.05 * rank)
        raise PeerLostError(guilty, f"rank {guilty} is lost")
    if what == "raise":
        time.sleep(0.1)
        raise ValueError("seven is not even")
    if what == "unfriendly":
        raise UnfriendlyError(1, 2)
    if what == "exit":
        os._exit(3)
    os.kill(os.getpid(), signal.SIGKILL)


def hang_except(rank: int, store: Store, folder: str, guilty: int | None = None) -> None:
    """Leave a file with the process's number and sleep; one may fail."""
    Path(folder, f"{rank}.{os.getpid()}").touch()
    if rank == guilty:
        raise ValueError("seven is not even")
    time.sleep(600)


def give_back(rank: int, store: Store, size: int) -> bytes:
    return bytes([rank]) * size


def give_back_a_function(rank: int, store: Store) -> object:
    return lambda: rank


if __name__ == "__main__":
    run_ranks(3, hang_except, sys.argv[1], kind="processes")
