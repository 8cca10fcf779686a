"""Store: what Hemiola asks of a store, the keys and values through which ranks find each other."""

from __future__ import annotations

from typing import Protocol

from hemiola.errors import ConnectError

TIMEOUT_SECONDS = 300.0


class Store(Protocol):
    """Keys and values that every rank of a job sees. Any thread may call it."""

    def set(self, key: str, value: bytes) -> None:
        """Write a value; it replaces an earlier one."""

    def get(self, key: str) -> bytes:
        """The value of a key; waits until it is written, and raises ConnectError after the store's timeout."""

    def add(self, key: str, amount: int) -> int:
        """Add to a counter that begins at 0; returns its new value, which ``get`` returns in decimal digits."""


def counter(key: str, value: bytes) -> int:
    """The number that a counter's value holds."""
    try:
        return int(value)
    except ValueError:
        raise ConnectError(f"key {key!r} of the store is no counter: it was written with set") from None


def missing_key(key: str, timeout: float) -> ConnectError:
    return ConnectError(
        f"nobody wrote key {key!r} to the store within {timeout:g} s; the rank that writes it did not start or "
        "has failed"
    )
