"""Meeting: every rank tells something, and hears what all have told."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hemiola.runtime.store import Store

Watch = Callable[[], None]
"""Called now and then while others are waited for; raises when there is no point in it."""
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.0002, 0.02
"""Between looks at a counter of the store."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """Every rank tells something and hears what all have told: rank 0 collects and writes the list once."""

    store: Store
    rank: int
    size: int
    watch: Watch | None

    def exchange(self, topic: str, told: Any) -> list[Any]:
        """What all ranks have told on a topic, by rank; anything that JSON can say."""
        if self.size == 1:
            return [told]
        self.store.set(f"{topic}/{self.rank}", json.dumps(told).encode())
        if self.rank == 0:
            self._await(f"{topic}/told", self.size - 1)
            all_told = [json.loads(self.store.get(f"{topic}/{peer}")) for peer in range(self.size)]
            self.store.set(f"{topic}/all", json.dumps(all_told).encode())
            self._tell(f"{topic}/collected")
            return all_told
        self._tell(f"{topic}/told")
        self._await(f"{topic}/collected", 1)
        heard = json.loads(self.store.get(f"{topic}/all"))
        assert isinstance(heard, list)
        return heard

    def _tell(self, counter: str) -> None:
        if self.watch is not None:
            self.store.add(counter, 1)

    def _await(self, counter: str, number: int) -> None:
        """With a watch, wait until a counter has come so far, and look around meanwhile."""
        pause = FIRST_PAUSE_SECONDS
        while self.watch is not None and self.store.add(counter, 0) < number:
            if pause == LAST_PAUSE_SECONDS:
                self.watch()
            time.sleep(pause)
            pause = min(2 * pause, LAST_PAUSE_SECONDS)
