"""serve: what a rank of a contestant does between the driver's commands: sleep on its socket.

Commands and answers are lines of JSON: ``{"prepare": {...}, "as": key}`` makes buffers and runs the collective once
on random data, whose result is checked; ``{"block": n, "of": key, "warm": w}`` times n calls after w that are not
counted, and ``{"release": true}`` gives the memory of all back. What Hemiola refuses is answered too. The rank ends when
the socket does.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import Any

from hemiola.errors import HemiolaError
from hemiola.integrations.bench.contestant import Contestant, Task
from hemiola.runtime.checking.check import expect


def serve(address: str, rank: int, contestant: Contestant, *, place: int | None = None) -> None:
    """Obey the driver at ``address`` until it closes the connection.

    ``place`` is the rank inside of the collectives, where ranks are not all in one.
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
                            contestant, task, rank if place is None else place
                        )
                    elif "block" in command:
                        call = calls[command["of"]]
                        answer = {"seconds": _time(contestant, call, command["block"], command["warm"])}
                    else:
                        calls.clear()
                except HemiolaError as error:
                    answer = {"failed": str(error)}
                _say(lines, answer)


def _say(lines: Any, answer: dict[str, Any]) -> None:
    lines.write(json.dumps(answer) + "\n")
    lines.flush()


def _prepare(contestant: Contestant, task: Task, rank: int) -> tuple[Callable[[], object], dict[str, Any]]:
    """The call, and what is wrong with its result; afterwards all data is zero and stays so under any sum."""
    trial = task.trial()
    buffers = trial.make_buffers(rank)
    trial.fill(rank, buffers)
    call = contestant.prepare(task, buffers)
    contestant.barrier()
    call()
    wrong = expect(trial, rank).check_output(buffers.output)
    buffers.output[:] = 0
    buffers.input[:] = 0
    return call, {"wrong": None if wrong is None else str(wrong)}


def _time(contestant: Contestant, call: Callable[[], object], times: int, warm: int) -> float:
    """Seconds per call, after a barrier and calls that are not counted."""
    contestant.barrier()
    for _ in range(warm):
        call()
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begin) / times
