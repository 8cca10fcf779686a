"""serve: what a rank of a contestant does between the driver's commands: sleep on its socket.

Commands and answers are lines of JSON: ``{"prepare": {...}}`` makes buffers and runs the collective once on
random data, whose result is checked; ``{"block": n}`` times n calls, and ``{"release": true}`` gives the memory
back. What Hemiola refuses is answered too. The rank ends when the socket does.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import Any

from hemiola.errors import HemiolaError
from hemiola.integrations.bench.contestant import Contestant, Task
from hemiola.runtime.check import expect


def serve(address: str, rank: int, contestant: Contestant) -> None:
    """Obey the driver at ``address`` until it closes the connection."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(address)
        with sock.makefile("rw", encoding="utf-8") as lines:
            _say(lines, {"rank": rank})
            call: Callable[[], None] | None = None
            for line in lines:
                command = json.loads(line)
                try:
                    if "prepare" in command:
                        call, answer = _prepare(contestant, Task(**command["prepare"]), rank)
                    elif call is not None and "block" in command:
                        answer = {"seconds": _time(contestant, call, command["block"])}
                    else:
                        call, answer = None, {}
                except HemiolaError as error:
                    answer = {"failed": str(error)}
                _say(lines, answer)


def _say(lines: Any, answer: dict[str, Any]) -> None:
    lines.write(json.dumps(answer) + "\n")
    lines.flush()


def _prepare(contestant: Contestant, task: Task, rank: int) -> tuple[Callable[[], None], dict[str, Any]]:
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


def _time(contestant: Contestant, call: Callable[[], None], times: int) -> float:
    """Seconds per call, after a barrier and a call that is not counted."""
    contestant.barrier()
    call()
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begin) / times
