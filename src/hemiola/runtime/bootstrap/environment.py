"""Environment: the rank of this process in its job, from the variables that torchrun, mpirun or srun set."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hemiola.collectives import MAX_RANKS
from hemiola.errors import ConnectError

MIN_SECRET_CHARACTERS = 16
MAX_PORT = 65535
MAX_INTERFACE_BYTES = 15
LOOPBACK = "127.0.0.1"
HOST = re.compile(r"(?=.{1,255}$)[0-9A-Za-z_:%-]{1,63}(\.[0-9A-Za-z_:%-]{1,63})*\.?")
"""What a host name or an address may look like; the resolver finds the other mistakes."""


@dataclass(frozen=True, slots=True)
class Launcher:
    """The variables in which one launcher tells a process its rank."""

    name: str
    rank: str
    world_size: str
    local_rank: str
    local_world_size: str | None
    master: tuple[str, ...] = ()
    """Variables other than MASTER_ADDR that hold the master's address, the best first; of a node list it is the first node."""

    def is_set_in(self, env: Mapping[str, str]) -> bool:
        return self.rank in env or self.world_size in env


LAUNCHERS = (
    Launcher("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    Launcher(
        "mpirun",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    Launcher(
        "srun",
        "SLURM_PROCID",
        "SLURM_NTASKS",
        "SLURM_LOCALID",
        None,
        master=("SLURM_STEP_NODELIST", "SLURM_LAUNCH_NODE_IPADDR"),
    ),
)
"""The first launcher whose variables are set is used: torchrun under srun sets RANK for every process, while the
variables of srun are those of torchrun itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The rank of this process in its job, and the settings of the job's network."""

    rank: int
    world_size: int
    local_rank: int
    """The rank among those of this host; 0 where no variable gives it and nothing depends on it."""
    local_world_size: int | None = None
    master_addr: str | None = None
    """The address of the host of rank 0; None where it is not known."""
    port: int | None = None
    """HEMIOLA_PORT: the port of the job's own store on rank 0, for jobs that are given no store."""
    secret: bytes | None = field(default=None, repr=False)
    """HEMIOLA_JOB_SECRET."""
    interfaces: tuple[str, ...] = ()
    """HEMIOLA_IFNAME: the interfaces of the local ranks in order; with more ranks than interfaces it begins again."""

    def store_address(self) -> tuple[str, int]:
        """Host and port of the job's own store, for a job that was given none."""
        if self.master_addr is None:
            raise ConnectError(
                f"the {self.world_size} ranks need a place to meet: set MASTER_ADDR to the address of rank 0"
            )
        if self.port is None:
            raise ConnectError(
                f"the {self.world_size} ranks need a place to meet: set HEMIOLA_PORT to a free port on "
                f"{self.master_addr}, the same for every rank (MASTER_PORT is held by the store of PyTorch), "
                "or give a store"
            )
        return self.master_addr, self.port


def read_environment(
    env: Mapping[str, str] = os.environ, *, rank: int | None = None, world_size: int | None = None
) -> Environment:
    """Read the environment from variables; ``rank`` and ``world_size`` replace theirs where the caller gives both.

    ConnectError names the variable that is missing, unreadable, out of range, or contradicts another.
    """
    launcher = next((each for each in LAUNCHERS if each.is_set_in(env)), None)
    interfaces = _interfaces(env)
    given = rank is not None or world_size is not None
    rank, world_size = _checked_rank(rank, world_size) if given else _launched_rank(env, launcher)
    local_rank, local_world_size = _local_rank(env, launcher, interfaces)
    if not given and launcher is not None and local_world_size is not None and local_world_size > world_size:
        raise ConnectError(
            f"{launcher.local_world_size} is {local_world_size}, but {launcher.world_size} is only {world_size}; "
            f"unset what {launcher.name} did not set"
        )
    all_local = world_size == 1 or (not given and local_world_size == world_size)
    return Environment(
        rank=rank,
        world_size=world_size,
        local_rank=local_rank,
        local_world_size=local_world_size,
        master_addr=_master(env, launcher) or (LOOPBACK if all_local else None),
        port=_port(env),
        secret=_secret(env),
        interfaces=interfaces,
    )


def _checked_rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    if rank is None or world_size is None:
        raise ConnectError("rank and world_size are given together, or both come from the environment")
    if not 1 <= world_size <= MAX_RANKS:
        raise ConnectError(f"world_size is between 1 and {MAX_RANKS}, but is {world_size}")
    if not 0 <= rank < world_size:
        raise ConnectError(f"rank is between 0 and {world_size - 1}, but is {rank}")
    return rank, world_size


def _launched_rank(env: Mapping[str, str], launcher: Launcher | None) -> tuple[int, int]:
    if launcher is None:
        raise ConnectError(
            "this process does not know its rank: start it with torchrun, mpirun or srun, set RANK and "
            "WORLD_SIZE, or give rank and world_size"
        )
    world_size = _number(env, launcher.world_size, 1, MAX_RANKS, beside=launcher.rank)
    return _number(env, launcher.rank, 0, world_size - 1, beside=launcher.world_size), world_size


def _local_rank(
    env: Mapping[str, str], launcher: Launcher | None, interfaces: tuple[str, ...]
) -> tuple[int, int | None]:
    launcher = launcher or LAUNCHERS[0]
    size_name, local_world_size, largest = launcher.local_world_size, None, MAX_RANKS - 1
    if size_name is not None and size_name in env:
        local_world_size = _number(env, size_name, 1, MAX_RANKS)
        largest = local_world_size - 1
    if launcher.local_rank in env:
        return _number(env, launcher.local_rank, 0, largest), local_world_size
    if len(interfaces) > 1:
        raise ConnectError(
            f"HEMIOLA_IFNAME lists {len(interfaces)} interfaces by local rank, but {launcher.local_rank} is not "
            "set; set it, or name one interface"
        )
    return 0, local_world_size


def _number(env: Mapping[str, str], name: str, least: int, most: int, *, beside: str | None = None) -> int:
    text = env.get(name)
    if text is None:
        raise ConnectError(f"{beside} is set, but {name} is not; set both")
    if not re.fullmatch("[0-9]{1,9}", text):
        raise ConnectError(f"{name} is a whole number from {least} to {most}, but is {text[:40]!r}")
    if not least <= int(text) <= most:
        raise ConnectError(f"{name} is between {least} and {most} in this job, but is {int(text)}")
    return int(text)


def _master(env: Mapping[str, str], launcher: Launcher | None) -> str | None:
    names = ("MASTER_ADDR", *(launcher.master if launcher else ()))
    name = next((name for name in names if name in env), None)
    if name is None:
        return None
    address = first_node(env[name]) if name.endswith("NODELIST") else env[name]
    if not HOST.fullmatch(address):
        raise ConnectError(f"{name} holds the name or address of one host, but is {env[name][:40]!r}")
    return address


def first_node(nodes: str) -> str:
    """The first node of a list in Slurm's syntax: of ``gpu[003-005,9],login`` it is ``gpu003``."""
    first = re.split(r",(?![^\[]*\])", nodes, maxsplit=1)[0]
    return re.sub(r"\[([^\[\],-]+)[^\[\]]*\]", r"\1", first)


def _port(env: Mapping[str, str]) -> int | None:
    if "HEMIOLA_PORT" not in env:
        return None
    port = _number(env, "HEMIOLA_PORT", 1, MAX_PORT)
    if env.get("MASTER_PORT") == str(port):
        raise ConnectError(
            f"HEMIOLA_PORT and MASTER_PORT are both {port}, but MASTER_PORT is held by the store of PyTorch; "
            "set HEMIOLA_PORT to another port"
        )
    return port


def _secret(env: Mapping[str, str]) -> bytes | None:
    secret = env.get("HEMIOLA_JOB_SECRET")
    if secret is None:
        return None
    if len(secret) < MIN_SECRET_CHARACTERS:
        raise ConnectError(
            f"HEMIOLA_JOB_SECRET has {len(secret)} characters, but at least {MIN_SECRET_CHARACTERS} are needed; "
            "draw one with: openssl rand -hex 32"
        )
    return secret.encode("utf-8", "surrogateescape")


def _interfaces(env: Mapping[str, str]) -> tuple[str, ...]:
    text = env.get("HEMIOLA_IFNAME")
    if text is None:
        return ()
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not 1 <= len(name.encode("utf-8", "surrogateescape")) <= MAX_INTERFACE_BYTES or re.search(
            r"[\s/]", name
        ):
            raise ConnectError(
                f"HEMIOLA_IFNAME lists interfaces by local rank, such as eth0,eth1, but holds {name[:40]!r}"
            )
    return names
