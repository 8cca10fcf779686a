"""Names on demand: a package whose names are imported from their modules when they are first used (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

Table = Sequence[tuple[str, str]]
"""Names with spaces between them, and the module that has them, written below the package."""


def names_on_demand(
    package: dict[str, Any], table: Table
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """What a package whose globals are ``package`` is to call __all__, __getattr__ and __dir__."""
    here = package["__name__"]
    modules = {name: f"{here}.{module}" for names, module in table for name in names.split()}

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {here!r} has no attribute {name!r}")
        package[name] = found = getattr(import_module(modules[name]), name)
        return found

    return [*modules], load, lambda: sorted({*package, *modules})
