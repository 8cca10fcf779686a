"""Where the secret comes from, and where it must not come from."""

from __future__ import annotations

import pytest

from hemiola.errors import ConnectError
from hemiola.runtime.bootstrap.environment import Environment
from hemiola.runtime.bootstrap.secret import job_secret, store_secret
from hemiola.runtime.bootstrap.store import LocalStore

GIVEN = b"a secret given by hand"


def place(
    rank: int, *, secret: bytes | None = None, master: str = "127.0.0.1", port: int = 4711
) -> Environment:
    return Environment(rank=rank, world_size=2, local_rank=rank, secret=secret, master_addr=master, port=port)


def test_a_secret_given_by_hand_needs_no_store() -> None:
    store = LocalStore(0.0)
    assert job_secret(place(0, secret=GIVEN), store) == GIVEN
    assert job_secret(place(1, secret=GIVEN), store) == GIVEN


def test_otherwise_rank_0_hands_one_out() -> None:
    store = LocalStore(0.0)
    drawn = job_secret(place(0), store)
    assert len(drawn) == 32
    assert job_secret(place(1), store) == drawn
    assert job_secret(place(0), LocalStore(0.0)) != drawn


def test_a_store_that_holds_something_else_there() -> None:
    store = LocalStore(0.0)
    store.set("hemiola/secret", b"")
    with pytest.raises(ConnectError, match="holds 0 bytes, but rank 0 writes 32"):
        job_secret(place(1), store)


def test_a_store_that_other_hosts_reach_needs_a_secret_given_by_hand() -> None:
    assert store_secret(place(0, secret=GIVEN, master="192.0.2.1")) == GIVEN
    with pytest.raises(
        ConnectError, match=r"the store at 192\.0\.2\.1 can be reached by other hosts: set HEMIOLA_JOB_SECRET"
    ):
        store_secret(place(0, master="192.0.2.1"))


def test_on_loopback_jobs_are_kept_apart_by_their_port() -> None:
    assert store_secret(place(0)) == store_secret(place(1))
    assert store_secret(place(0)) != store_secret(place(0, port=4712))
