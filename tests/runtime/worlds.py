"""Groups of ranks for tests: one function on every rank, each with a communicator of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pytest

import hemiola as hemiola  # its import provides the library's plans, also in processes that start here
from hemiola.errors import HemiolaError
from hemiola.runtime.bootstrap.store import Store
from hemiola.runtime.communicator.communicator import Communicator
from hemiola.runtime.launch import RankKind, run_ranks

T = TypeVar("T")

TIMEOUT = 120.0
"""Seconds for everything that a test does with one group; nothing should come near."""


def on_ranks(
    num_ranks: int,
    body: Callable[..., T],
    *arguments: object,
    kind: RankKind = "threads",
    **options: Any,
) -> list[T]:
    """``body(communicator, *arguments)`` on every rank; what they return, in the order of ranks.

    ``options`` go to the communicators. For processes the body is a function at the top of a module.
    """
    return run_ranks(num_ranks, _be_rank, num_ranks, body, arguments, options, kind=kind, timeout=TIMEOUT)


def _be_rank(
    rank: int,
    store: Store,
    num_ranks: int,
    body: Callable[..., T],
    arguments: tuple[object, ...],
    options: dict[str, Any],
) -> T:
    if "settings" not in options:
        options = {"timeout": TIMEOUT, **options}
    with Communicator(rank, num_ranks, store=store, **options) as world:
        return body(world, *arguments)


def ones(world: Communicator, length: int = 5) -> npt.NDArray[np.float64]:
    """Everywhere the rank's number and one."""
    return np.full(length, world.rank + 1.0)


def raising(error: type[HemiolaError], sentence: str, call: Callable[[], object]) -> None:
    """Hold that a call raises; a rank goes on afterwards."""
    with pytest.raises(error, match=sentence):
        call()


def call_and_meet(world: Communicator, call: Callable[[Communicator], object]) -> None:
    """A call whose part on this rank may end rightly, and one after it that must notice."""
    call(world)
    world.barrier()
