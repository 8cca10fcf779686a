"""Progress: a line on stderr while something takes longer than a second and a person is watching."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.live import Live

PATIENCE_SECONDS = 1.0


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """The same for work in parts: say how many of them are done, and about how long the others take."""
    begin = time.monotonic()
    line = [what]

    def heard(done: int, total: int) -> None:
        left = (time.monotonic() - begin) / done * (total - done) if done else None
        line[0] = f"{what}: {done} of {total}" + ("" if left is None else f", about {left:.0f} s left")

    with working(lambda: line[0]):
        yield heard


@contextmanager
def working(what: str | Callable[[], str]) -> Iterator[None]:
    """Say ``what`` is being done, from the first second on, until it is done.

    The display is begun by another thread, so it must leave ``sys.stdout`` alone: whoever redirects that
    meanwhile would get it back from the wrong hands.
    """
    if not sys.stderr.isatty():
        yield
        return
    shown: list[Live] = []

    def show() -> None:
        from rich.console import Console  # only where it comes to that
        from rich.live import Live
        from rich.spinner import Spinner
        from rich.text import Text

        spinner = Spinner("dots")

        def line() -> Spinner:
            spinner.update(text=Text(f"{what if isinstance(what, str) else what()} ..."))
            return spinner

        display = Live(
            get_renderable=line, console=Console(stderr=True), transient=True, redirect_stdout=False,
            redirect_stderr=False,
        )  # fmt: skip
        display.start()
        shown.append(display)

    timer = Timer(PATIENCE_SECONDS, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        for display in shown:
            display.stop()
