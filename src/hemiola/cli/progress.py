"""Progress: a line on stderr while something takes longer than a second and a person is watching."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

from rich.console import Console

PATIENCE_SECONDS = 1.0


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say ``what`` is being done, from the first second on, until it is done."""
    if not sys.stderr.isatty():
        yield
        return
    status = Console(stderr=True, markup=False, emoji=False).status(f"{what} ...")
    timer = Timer(PATIENCE_SECONDS, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()
