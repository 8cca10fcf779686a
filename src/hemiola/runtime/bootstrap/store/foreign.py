"""``wrap_store``: a store of another library, whose errors become ConnectErrors."""

from __future__ import annotations

from hemiola.errors import ConnectError
from hemiola.runtime.bootstrap.store.protocol import Store

FOREIGN_ERRORS = (RuntimeError, OSError, EOFError, LookupError, ValueError)
"""The exceptions that stores of other libraries raise; those of PyTorch raise subclasses of RuntimeError."""


def wrap_store(foreign: object) -> Store:
    """A store of another library, such as one of ``torch.distributed``, whose errors become ConnectErrors."""
    for method in ("set", "get", "add"):
        if not callable(getattr(foreign, method, None)):
            raise ConnectError(f"a store has set, get and add, but {type(foreign).__name__} has no {method}")
    return _WrappedStore(foreign)


class _WrappedStore(Store):
    def __init__(self, foreign: object) -> None:
        self._foreign = foreign

    def set(self, key: str, value: bytes) -> None:
        self._call("set", key, value)

    def get(self, key: str) -> bytes:
        value = self._call("get", key)
        if not isinstance(value, bytes | bytearray | memoryview):
            raise ConnectError(
                f"{type(self._foreign).__name__}.get gives bytes, but gave {type(value).__name__} for key {key!r}"
            )
        return bytes(value)

    def add(self, key: str, amount: int) -> int:
        total = self._call("add", key, amount)
        if not isinstance(total, int):
            raise ConnectError(
                f"{type(self._foreign).__name__}.add gives an int, but gave {type(total).__name__} for key {key!r}"
            )
        return total

    def _call(self, method: str, key: str, *arguments: object) -> object:
        try:
            return getattr(self._foreign, method)(key, *arguments)
        except FOREIGN_ERRORS as error:
            said = str(error).partition("\n")[0] or type(error).__name__
            raise ConnectError(
                f"{method} of key {key!r} failed in {type(self._foreign).__name__}: {said}"
            ) from error
