"""Lab: a running lab as its users see it, and how it is started, found and ended."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

from hemiola.errors import LabError
from hemiola.lab.addresses import is_own, lab_address, names
from hemiola.lab.namespaces import find_tool, obstacle
from hemiola.lab.processes import MARK, adopt_orphans, end_with_parent
from hemiola.lab.shape import Shape
from hemiola.lab.wiring import Wiring, wire
from hemiola.topology.system import System

MASTER_PORT, HEMIOLA_PORT = 29500, 29501
SAFE_MODULE = ("-P", "-m")
"""Options of Python that run a module of an installed package, never a file of that name in the current folder."""
ANSWER_SECONDS = 30.0


@dataclass(frozen=True)
class Lab:
    """A running lab."""

    name: str
    pid: int
    """The process of its keeper."""
    shape: Shape
    hosts: tuple[tuple[int, int], ...]
    """For every host, the keeper's file descriptors of its network namespace and its UTS namespace."""

    @property
    def system(self) -> System:
        """The system that the lab builds."""
        return self.shape.system()

    @property
    def wiring(self) -> Wiring:
        """The interfaces, cables and addresses of the lab."""
        return wire(self.system)

    def inside(self, host: int) -> list[str]:
        """The prefix of a command line that runs it on a host."""
        return enter_command(self.pid, *self.hosts[host])

    def environment(self, rank: int) -> dict[str, str]:
        """The environment variables that a launcher such as torchrun would set for a rank."""
        system = self.system
        host = system.host_of_rank[rank]
        local = [other for other, its_host in enumerate(system.host_of_rank) if its_host == host]
        interfaces = [nic.interface for nic in self.wiring.nics_of(host)]
        own = interfaces[local.index(rank) % len(interfaces)]
        return {
            "RANK": str(rank),
            "WORLD_SIZE": str(system.num_ranks),
            "LOCAL_RANK": str(local.index(rank)),
            "LOCAL_WORLD_SIZE": str(len(local)),
            "GROUP_RANK": str(host),
            "GROUP_WORLD_SIZE": str(system.num_hosts),
            "MASTER_ADDR": self.wiring.nics[0].address,
            "MASTER_PORT": str(MASTER_PORT),
            "HEMIOLA_PORT": str(HEMIOLA_PORT),
            "HEMIOLA_IFNAME": ",".join(interfaces),
            "GLOO_SOCKET_IFNAME": own,
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        }

    def mpi_environment(self, hostfile: str) -> dict[str, str]:
        """The environment variables with which mpirun, run on the first host, starts ranks on all hosts."""
        agent = " ".join((sys.executable, *SAFE_MODULE, "hemiola.lab.remote_shell"))
        interfaces = ",".join(nic.interface for nic in self.wiring.nics_of(0))
        where = {nic.address: self.hosts[nic.host] for nic in self.wiring.nics}
        return {
            "HEMIOLA_LAB_HOSTS": json.dumps({"pid": self.pid, "hosts": where}),
            "OMPI_MCA_plm_rsh_agent": agent,
            "OMPI_MCA_orte_default_hostfile": hostfile,
            "OMPI_MCA_btl_tcp_if_include": interfaces,
            "OMPI_MCA_oob_tcp_if_include": interfaces,
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }

    def hostfile(self) -> str:
        """The hosts and their numbers of ranks, in the format of Open MPI's hostfile."""
        system, first = self.system, {nic.host: nic.address for nic in reversed(self.wiring.nics)}
        return "".join(
            f"{first[host]} slots={system.host_of_rank.count(host)}\n" for host in range(system.num_hosts)
        )

    def start(
        self, host: int, command: Sequence[str], environment: Mapping[str, str], mark: str, **options: Any
    ) -> subprocess.Popen[Any]:
        """Start a process on a host; the kernel kills it when the thread that started it ends."""
        variables = {**os.environ, **environment, "HEMIOLA_LAB": self.name, MARK: mark}
        return subprocess.Popen(
            [*self.inside(host), *command], env=variables, preexec_fn=end_with_parent, **options
        )

    def networks(self) -> set[int]:
        """The inodes of the hosts' network namespaces, by which their processes are found; empty when the lab has ended."""
        found = set()
        for net, _ in self.hosts:
            with suppress(OSError):
                found.add(os.stat(f"/proc/{self.pid}/fd/{net}").st_ino)
        return found

    def watch(self, mark: str) -> socket.socket:
        """A connection to the keeper. When it closes, the keeper ends all processes with the mark and all that descend from
        this process.

        From now on orphaned descendants of this process become its children, so that they can be found.
        """
        adopt_orphans()
        connection = _connect(self.name)
        _ask(connection, {"ask": "watch", "mark": mark, "pid": os.getpid()})
        return connection


def enter_command(pid: int, net: int, uts: int) -> list[str]:
    """The prefix of a command line that runs it in namespaces that a process holds."""
    nsenter = find_tool("nsenter")
    if nsenter is None:
        raise LabError("the lab needs the command nsenter; install Debian's package util-linux")
    return [nsenter, f"--net=/proc/{pid}/fd/{net}", f"--uts=/proc/{pid}/fd/{uts}", "--"]


class Starter:
    """Starts the keeper of a new lab, which ends with this process until ``stay`` is called."""

    def __init__(self, name: str, shape: Shape) -> None:
        lab_address(name)
        wire(shape.system())
        if (problem := obstacle()) is not None:
            raise LabError(problem)
        self.name = name
        self._keeper: subprocess.Popen[str] = subprocess.Popen(
            # The keeper does not read its argument, which shows the name of the lab in lists of processes.
            [sys.executable, *SAFE_MODULE, "hemiola.lab.keeper", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # otherwise a reader of our stderr would wait until the lab ends
            text=True,
            start_new_session=True,
        )
        self._stays = False
        try:
            self._say(json.dumps({"name": name, "shape": shape.as_json()}))
            answer = json.loads(
                _line(self._keeper.stdout) or '{"failed": "the keeper of the lab ended early"}'
            )
            if "failed" in answer:
                raise LabError(answer["failed"])
            self.lab = find(name)
        except BaseException:
            self.close()
            raise

    def stay(self) -> None:
        """Let the lab run after this process ends, until ``take_down`` ends it."""
        self._say("stay")
        self._stays = True

    def close(self) -> None:
        """End the lab, unless it stays."""
        for pipe in (self._keeper.stdin, self._keeper.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        if not self._stays:
            self._keeper.wait()

    def _say(self, line: str) -> None:
        assert self._keeper.stdin is not None
        with suppress(BrokenPipeError):  # the keeper has failed and said why, or it was killed
            self._keeper.stdin.write(f"{line}\n")
            self._keeper.stdin.flush()

    def __enter__(self) -> Lab:
        return self.lab

    def __exit__(self, *_: object) -> None:
        self.close()


def find(name: str | None = None) -> Lab:
    """The running lab of that name; without a name, the only running lab."""
    standing = names()
    if name is None:
        if len(standing) != 1:
            hint = (
                "make one with: hemiola lab up 2x4" if not standing else f"say which: {', '.join(standing)}"
            )
            raise LabError(f"{len(standing) or 'no'} labs stand; {hint}")
        (name,) = standing
    if name not in standing:
        there = (
            f"standing are {', '.join(standing)}"
            if standing
            else "none stands; make one with: hemiola lab up 2x4"
        )
        raise LabError(f"there is no lab called {name}; {there}")
    with _connect(name) as connection:
        told = _ask(connection, {"ask": "describe"})
    return Lab(
        told["name"],
        told["pid"],
        Shape.from_json(told["shape"]),
        tuple((net, uts) for net, uts in told["hosts"]),
    )


def take_down(name: str) -> None:
    """End a lab and all its processes; returns when it has ended."""
    with _connect(name) as connection:
        _ask(connection, {"ask": "down"})
        with suppress(ConnectionError, TimeoutError):
            connection.recv(1)  # until the keeper ends


def _connect(name: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(ANSWER_SECONDS)
        connection.connect(lab_address(name))
        if not is_own(connection):
            raise LabError(f"the lab {name} belongs to another user")
    except OSError as error:
        connection.close()
        raise LabError(f"the lab {name} does not answer: {error.strerror or error}") from None
    except LabError:
        connection.close()
        raise
    return connection


def _ask(connection: socket.socket, request: Mapping[str, Any]) -> dict[str, Any]:
    try:
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("r", encoding="utf-8") as lines:
            answer = json.loads(lines.readline() or "null")
    except (OSError, ValueError):
        answer = None
    if not isinstance(answer, dict):
        raise LabError("the lab has ended")
    return answer


def _line(pipe: IO[str] | None) -> str:
    assert pipe is not None
    return pipe.readline()
