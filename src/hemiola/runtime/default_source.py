"""The default source of plans: how it is made for communicators that are given none.

The public door fills this in when the package is imported, so nothing is imported here that takes time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hemiola.errors import RunError

if TYPE_CHECKING:
    from hemiola.runtime.plans.plan_source import PlanSource

_factories: list[Callable[[int], PlanSource]] = []


def provide_default(factory: Callable[[int], PlanSource]) -> None:
    """Say how the source is made that communicators use when they are given none, for a number of slots."""
    _factories[:] = [factory]


def provided_default() -> Callable[[int], PlanSource]:
    """What was provided last; raises RunError where nothing was."""
    if not _factories:
        raise RunError("no source of plans was provided; import hemiola, or give the communicator plans=")
    return _factories[0]
