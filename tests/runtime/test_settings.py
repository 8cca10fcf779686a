"""Settings: from the environment, within their bounds, and what the defaults mean on a host."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from hemiola.errors import ConnectError, RunError
from hemiola.runtime.bootstrap.store import Store
from hemiola.runtime.communicator.communicator import Communicator
from hemiola.runtime.launch import run_ranks
from hemiola.runtime.settings import Settings, num_cores
from runtime.worlds import on_ranks

SET = {
    "HEMIOLA_SLOTS": ("3", 3),
    "HEMIOLA_SLOT_BYTES": ("64KiB", 64 << 10),
    "HEMIOLA_TILE_BYTES": ("4096", 4096),
    "HEMIOLA_WORKERS": ("2", 2),
    "HEMIOLA_SPINS": ("17", 17),
    "HEMIOLA_YIELD_SECONDS": ("0.5", 0.5),
    "HEMIOLA_TIMEOUT": ("12.5", 12.5),
    "HEMIOLA_PIN": ("always", "always"),
}


def test_nothing_set_is_the_defaults() -> None:
    assert Settings.from_environment({}) == Settings()


def test_every_setting_has_a_variable() -> None:
    assert {f"HEMIOLA_{field.name.upper()}" for field in fields(Settings)} == set(SET)
    found = Settings.from_environment({name: text for name, (text, _) in SET.items()})
    for name, (_, value) in SET.items():
        assert getattr(found, name.removeprefix("HEMIOLA_").lower()) == value


@pytest.mark.parametrize("variable", SET)
def test_a_variable_that_cannot_be_read_is_named(variable: str) -> None:
    with pytest.raises(RunError, match=f"{variable} cannot be read: 'a few'"):
        Settings.from_environment({variable: "a few"})


def test_the_words_for_pinning_are_told() -> None:
    with pytest.raises(RunError, match="HEMIOLA_PIN cannot be read: '1'; it is one of never, calls, always"):
        Settings.from_environment({"HEMIOLA_PIN": "1"})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"slots": 0}, "slots is between 1 and 1024, but is 0"),
        ({"slots": 1025}, "slots is between"),
        ({"slot_bytes": 0}, "slot_bytes is between 64"),
        ({"slot_bytes": 100}, "slot_bytes is a multiple of 64, but is 100"),
        ({"tile_bytes": -1}, "tile_bytes is between"),
        ({"workers": -1}, "workers is between"),
        ({"workers": 257}, "workers is between"),
        ({"spins": -2}, "spins is between"),
        ({"yield_seconds": -1.5}, "yield_seconds is between"),
        ({"timeout": 0.0}, "timeout is between"),
        ({"timeout": float("nan")}, "timeout is between"),
        ({"timeout": float("inf")}, "timeout is between"),
        ({"pin": "sometimes"}, "pin is one of never, calls, always, but is 'sometimes'"),
        ({"pin": True}, "pin is one of never, calls, always, but is True"),
    ],
    ids=str,
)
def test_values_out_of_bounds_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RunError, match=sentence):
        Settings(**changes)


def test_ranks_that_share_cores_or_have_links_spin_less() -> None:
    cores = num_cores()
    assert cores == len(os.sched_getaffinity(0))
    most = Settings().num_spins(cores, has_links=False)
    assert most > Settings().num_spins(cores + 1, has_links=False)
    assert most > Settings().num_spins(cores, has_links=True)
    assert Settings().crowd_seconds(cores) < Settings().crowd_seconds(cores + 1)
    for has_links in (False, True):
        assert Settings(spins=5).num_spins(1000, has_links=has_links) == 5
        assert Settings(yield_seconds=0.5).seconds_of_yielding(1000, has_links=has_links) == 0.5


def test_who_waits_for_another_host_sleeps_sooner() -> None:
    cores, usual = num_cores(), Settings()
    assert (
        usual.seconds_of_yielding(cores, has_links=False)
        > usual.seconds_of_yielding(cores, has_links=True)
        > 0
    )
    assert usual.seconds_of_yielding(cores + 1, has_links=True) == 0


def test_there_is_always_a_worker_and_never_more_than_asked() -> None:
    for ranks in (1, 2, 1000):
        assert 1 <= Settings().num_workers(ranks) <= 4
        assert Settings(workers=7).num_workers(ranks) == 7


@pytest.mark.parametrize(
    "machine",
    [
        Settings(slots=1, slot_bytes=64),
        Settings(slots=2, slot_bytes=64),
        Settings(slots=1024, slot_bytes=64),
        Settings(tile_bytes=1),
        Settings(tile_bytes=1 << 30),
        Settings(workers=9),
        Settings(spins=0, yield_seconds=0),
        Settings(spins=100_000),
    ],
    ids=str,
)
def test_results_do_not_depend_on_them(machine: Settings) -> None:
    def body(world: Communicator) -> list[float]:
        found = []
        for length in (1, 100, 3001):
            data = np.full(length, world.rank + 1.0)
            world.all_reduce(data)
            found += [data.min(), data.max()]
        return found

    assert on_ranks(3, body, settings=machine) == [[6.0] * 6] * 3


def make_with_slots_by_rank(rank: int, store: Store) -> str:
    with pytest.raises(ConnectError, match="give every rank the same") as caught:
        Communicator(rank, 2, store=store, settings=Settings(slots=4 + rank))
    return str(caught.value)


def test_ranks_must_agree_on_the_slots() -> None:
    found = run_ranks(2, make_with_slots_by_rank, timeout=60)
    assert all("HEMIOLA_SLOTS" in sentence for sentence in found)
