"""PrefixedStore: a part of a store, for one group of ranks."""

from __future__ import annotations

from dataclasses import dataclass

from hemiola.runtime.store.protocol import Store


@dataclass(frozen=True, slots=True)
class PrefixedStore(Store):
    """The keys of a store that begin with a prefix, without it."""

    store: Store
    prefix: str

    def set(self, key: str, value: bytes) -> None:
        self.store.set(self.prefix + key, value)

    def get(self, key: str) -> bytes:
        return self.store.get(self.prefix + key)

    def add(self, key: str, amount: int) -> int:
        return self.store.add(self.prefix + key, amount)
