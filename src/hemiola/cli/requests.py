"""Requests: the options that say which groups of a system's devices a verb speaks of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

Decorated = Callable[..., Any]


def placement_options(command: Decorated) -> Decorated:
    """``--axes``, ``--placement`` and ``--over``, for verbs that also take a whole system."""
    for option in (
        click.option(
            "--over", metavar="NAMES", help="The axes that the collective runs over; all others run beside it."
        ),
        click.option(
            "--placement", "placement_text", metavar="P",
            help="Where the axes are: 1x4;2x2 (a row for each axis, a number for each level) or a placement.json.",
        ),
        click.option("--axes", "axes_text", metavar="A", help="Names and sizes, as data=8,model=4."),
    ):  # fmt: skip
        command = option(command)
    return command
