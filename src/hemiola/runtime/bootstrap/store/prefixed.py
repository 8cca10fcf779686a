"""PrefixedStore: the keys of a store that belong to one group of ranks."""

from __future__ import annotations

from dataclasses import dataclass

from hemiola.runtime.bootstrap.store.protocol import Store


@dataclass(frozen=True, slots=True)
class PrefixedStore(Store):
    """A view of a store in which every key gets a prefix."""

    store: Store
    prefix: str

    def set(self, key: str, value: bytes) -> None:
        self.store.set(self.prefix + key, value)

    def get(self, key: str) -> bytes:
        return self.store.get(self.prefix + key)

    def add(self, key: str, amount: int) -> int:
        return self.store.add(self.prefix + key, amount)
