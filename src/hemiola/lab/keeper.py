"""Keeper: the process that holds the namespaces of a lab. When it ends, for whatever reason, the lab ends.

The namespaces have no names, so the kernel removes them with the keeper. The keeper has no file either, but an abstract
socket with the lab's name. Requests and replies are lines of JSON:

- ``{"ask": "describe"}``: the reply says what the lab is and which descriptors hold its hosts.
- ``{"ask": "watch", "mark": M, "pid": P}``: when this connection ends, the keeper ends all processes in the lab that
  have this mark, and all that do not descend from the process of another watching connection.
- ``{"ask": "down"}``: the keeper ends all processes in the lab, replies when none is left, and ends.

The keeper reads a line of JSON from stdin and replies with one on stdout. Until it reads the line ``stay``, it ends with
the process that started it.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import threading
from contextlib import ExitStack, suppress
from typing import Any, NoReturn

from hemiola import _core
from hemiola.errors import HemiolaError, LabError
from hemiola.lab import commands
from hemiola.lab.addresses import is_own, lab_address
from hemiola.lab.namespaces import Namespace, inode, kept_apart, make_namespace, make_tap, run_batch
from hemiola.lab.processes import descends_from, end_processes, has_mark
from hemiola.lab.shape import Shape
from hemiola.lab.wiring import wire

LONGEST_LINE = 1 << 20
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Keeper:
    """A lab: its namespaces, its socket and the threads that delay frames."""

    def __init__(self, name: str, shape: Shape) -> None:
        self._name, self._shape = name, shape
        self._wiring = wire(shape.system())
        with ExitStack() as stack:
            self._listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            _bind(self._listener, name)
            stack.callback(self._end_processes)
            self._namespaces: list[Namespace] = []
            self._build(stack)
            self._listener.listen()
            self._stack = stack.pop_all()
        self._watched: dict[socket.socket, tuple[str, int]] = {}
        """For every watching connection, its mark and its process."""

    def _build(self, stack: ExitStack) -> None:
        taps: list[_core.DelayLine] = []
        with kept_apart():
            self._namespaces += [make_namespace(name) for name in self._wiring.host_names]
            self._fabric = make_namespace("switches")
            for cable in commands.delayed_cables(self._wiring):
                near, far = (make_tap(tap) for tap in commands.taps_of(cable))
                taps.append(_core.DelayLine(near, far, cable.delay_seconds))
        paths = [namespace.path(os.getpid()) for namespace in self._namespaces]
        run_batch("ip", commands.fabric_commands(self._wiring, paths), self._fabric)
        run_batch("tc", commands.fabric_shaping(self._wiring), self._fabric)
        for number, namespace in enumerate(self._namespaces):
            nics = self._wiring.nics_of(number)
            run_batch("ip", commands.host_commands(nics), namespace)
            run_batch("tc", commands.host_shaping(nics), namespace)
        if taps:
            stop, stopping = os.pipe2(os.O_CLOEXEC)
            carrier = threading.Thread(target=_core.carry_frames, args=(taps, stop), daemon=True)
            carrier.start()
            stack.callback(carrier.join)
            stack.callback(os.close, stopping)

    def serve(self, starter: int) -> None:
        """Reply to requests until one says ``down``, or the starter ends before it said ``stay``."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(starter, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self._listener:
                        peer, _ = self._listener.accept()
                        if is_own(peer):
                            peer.settimeout(1.0)
                            selector.register(peer, selectors.EVENT_READ)
                        else:
                            peer.close()
                    elif key.fd == starter:
                        if os.read(starter, 64).strip() != b"stay":
                            return
                        selector.unregister(starter)
                    else:
                        assert isinstance(key.fileobj, socket.socket)
                        if not self._reply(key.fileobj, selector):
                            return

    def _reply(self, peer: socket.socket, selector: selectors.BaseSelector) -> bool:
        """Reply to one request; returns whether to continue."""
        request = _receive(peer)
        if request is None:
            selector.unregister(peer)
            peer.close()
            if peer in self._watched:
                mark, _ = self._watched.pop(peer)
                self._end_orphans(mark)
            return True
        answer: dict[str, Any] = {}
        match request.get("ask"):
            case "describe":
                answer = self._description()
            case "watch":
                self._watched[peer] = str(request["mark"]), int(request["pid"])
            case "down":
                self._end_processes()
                _send(peer, answer)
                return False
        _send(peer, answer)
        return True

    def _description(self) -> dict[str, Any]:
        return {
            "name": self._name,
            "pid": os.getpid(),
            "shape": self._shape.as_json(),
            "hosts": [[namespace.net, namespace.uts] for namespace in self._namespaces],
        }

    def _end_processes(self) -> None:
        end_processes(self._networks())

    def _end_orphans(self, mark: str) -> None:
        """End the processes with a mark, and those without a living watcher as ancestor, which may have lost their mark."""
        living = {pid for _, pid in self._watched.values()}
        end_processes(self._networks(), lambda pid: has_mark(pid, mark) or not descends_from(pid, living))

    def _networks(self) -> set[int]:
        return {inode(namespace.net) for namespace in self._namespaces}

    def close(self) -> None:
        """End all processes in the lab; the kernel removes the namespaces when this process ends."""
        self._stack.close()


def _bind(listener: socket.socket, name: str) -> None:
    try:
        listener.bind(lab_address(name))
    except OSError:
        raise LabError(
            f"there is a lab called {name} already; end it with: hemiola lab down {name}"
        ) from None


def _receive(peer: socket.socket) -> dict[str, Any] | None:
    """The next request; None where the client has closed the connection or sent no valid JSON."""
    text = b""
    try:
        while not text.endswith(b"\n"):
            part = peer.recv(4096)
            if not part or len(text) > LONGEST_LINE:
                return None
            text += part
        request = json.loads(text)
    except (OSError, ValueError):
        return None
    return request if isinstance(request, dict) else None


def _send(peer: socket.socket, answer: dict[str, Any]) -> None:
    with suppress(OSError):  # the client may have ended
        peer.sendall(json.dumps(answer).encode() + b"\n")


def _interrupted(number: int, _: object) -> NoReturn:
    for other in SIGNALS:  # a second signal must not interrupt the cleanup
        signal.signal(other, signal.SIG_IGN)
    raise SystemExit(128 + number)


def main() -> int:
    """Build the lab that stdin describes, and hold it until it ends."""
    for number in SIGNALS:
        signal.signal(number, _interrupted)
    request = json.loads(sys.stdin.readline())
    try:
        keeper = Keeper(request["name"], Shape.from_json(request["shape"]))
    except (HemiolaError, OSError) as error:
        print(json.dumps({"failed": str(error)}), flush=True)
        return 1
    try:
        print(json.dumps({"ready": True}), flush=True)
        keeper.serve(sys.stdin.fileno())
    finally:
        keeper.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
