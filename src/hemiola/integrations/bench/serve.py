"""serve: the loop of a backend's rank, which waits at a socket for commands of the driver and obeys them.

Commands and replies are lines of JSON. ``{"prepare": {...}, "as": key}`` makes buffers, runs the collective once on
random data and checks the result. ``{"block": n, "of": key, "warm": w}`` times n calls after w calls that are not
counted. ``{"release": true}`` frees all buffers. An error that Hemiola raises is sent as the reply. The rank ends when
the driver closes the socket.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import Any

from hemiola.errors import HemiolaError
from hemiola.integrations.bench.backend import Backend, Task
from hemiola.runtime.checking.check import expect


def serve(address: str, rank: int, backend: Backend, *, place: int | None = None) -> None:
    """Obey the driver at ``address`` until it closes the connection.

    ``place`` is the rank within its group, where the collectives run in groups of ranks.
    """
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(address)
        with sock.makefile("rw", encoding="utf-8") as lines:
            _say(lines, {"rank": rank})
            calls: dict[str, Callable[[], object]] = {}
            for line in lines:
                command = json.loads(line)
                answer: dict[str, Any] = {}
                try:
                    if "prepare" in command:
                        task = Task(**command["prepare"])
                        calls[command["as"]], answer = _prepare(
                            backend, task, rank if place is None else place
                        )
                    elif "block" in command:
                        call = calls[command["of"]]
                        answer = {"seconds": _time(backend, call, command["block"], command["warm"])}
                    else:
                        calls.clear()
                except HemiolaError as error:
                    answer = {"failed": str(error)}
                _say(lines, answer)


def _say(lines: Any, answer: dict[str, Any]) -> None:
    lines.write(json.dumps(answer) + "\n")
    lines.flush()


def _prepare(backend: Backend, task: Task, rank: int) -> tuple[Callable[[], object], dict[str, Any]]:
    """The prepared call, and the reply with the first wrong element. Afterwards all data is 0, which sums leave as it is."""
    trial = task.trial()
    buffers = trial.make_buffers(rank)
    trial.fill(rank, buffers)
    call = backend.prepare(task, buffers)
    backend.barrier()
    call()
    wrong = expect(trial, rank).check_output(buffers.output)
    buffers.output[:] = 0
    buffers.input[:] = 0
    return call, {"wrong": None if wrong is None else str(wrong)}


def _time(backend: Backend, call: Callable[[], object], times: int, warm: int) -> float:
    """Seconds per call, measured after a barrier and some calls that are not counted."""
    backend.barrier()
    for _ in range(warm):
        call()
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begin) / times
