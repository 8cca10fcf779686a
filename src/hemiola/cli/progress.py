"""Progress: a line on stderr while something takes longer than a second and a person is watching."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

PATIENCE_SECONDS = 1.0


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say ``what`` is being done, from the first second on, until it is done.

    The display is begun by another thread, so it must leave ``sys.stdout`` alone: whoever redirects that
    meanwhile would get it back from the wrong hands.
    """
    if not sys.stderr.isatty():
        yield
        return
    display = Live(
        Spinner("dots", Text(f"{what} ...")), console=Console(stderr=True), transient=True,
        redirect_stdout=False, redirect_stderr=False,
    )  # fmt: skip
    timer = Timer(PATIENCE_SECONDS, display.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        display.stop()
