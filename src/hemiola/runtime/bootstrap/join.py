"""``join``: a rank finds its peers through a store, maps the memory of those on its host, and learns the addresses of the others."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from hemiola import _core
from hemiola.errors import ConnectError
from hemiola.runtime.bootstrap.cores import Core, allowed_cores, choose_cores
from hemiola.runtime.bootstrap.environment import Environment
from hemiola.runtime.bootstrap.host import boot_id, host_id
from hemiola.runtime.bootstrap.interfaces import choose_address, is_loopback
from hemiola.runtime.bootstrap.membership import Membership
from hemiola.runtime.bootstrap.peer_links import PeerLinks
from hemiola.runtime.bootstrap.rendezvous import CheckPeers, StoreExchange
from hemiola.runtime.bootstrap.secret import job_secret
from hemiola.runtime.bootstrap.store import PrefixedStore, Store
from hemiola.runtime.settings import Settings

Table = list[dict[str, Any]]
"""What every rank wrote about itself, indexed by rank."""


def join(
    environment: Environment,
    store: Store,
    name: str,
    settings: Settings,
    *,
    check_peers: CheckPeers | None = None,
) -> Membership:
    """Find the other ranks of group ``name`` through the store; returns when all of them have joined.

    ``check_peers`` is called during the wait and may end it with an error; without it only the store's timeout does.
    """
    rank, size = environment.rank, environment.world_size
    group = f"{name}/{store.add(f'{name}/made/{rank}', 1)}"
    store = PrefixedStore(store, f"{group}/")
    exchange = StoreExchange(store, rank, size, check_peers)
    endpoint = _core.Endpoint(rank, size, settings.slots, settings.slot_bytes)
    table = exchange.all_gather("host", _about_this_rank(endpoint, settings))
    _check_agreement(table, rank)
    numbers: dict[str, int] = {}
    hosts = tuple(numbers.setdefault(entry["host"], len(numbers)) for entry in table)
    neighbours = [peer for peer in range(size) if hosts[peer] == hosts[rank] and peer != rank]
    for peer in neighbours:
        pid = table[peer]["pid"]
        descriptor = _descriptor_of(peer, pid, table[peer]["segment"], os.O_RDWR)
        endpoint.join_local(peer, descriptor, 0 if pid == os.getpid() else pid)
    links = None
    if len(numbers) > 1:
        address = _own_address(environment, table)
        links = PeerLinks(endpoint, group, rank, address, job_secret(environment, store))
        _exchange_addresses(exchange, endpoint, links, neighbours, table)
    exchange.all_gather("joined", True)
    cores = choose_cores({peer: table[peer]["cores"] for peer in (rank, *neighbours)})
    _configure(endpoint, settings, cores, rank, has_links=links is not None)
    return Membership(endpoint, name, rank, hosts, links, store)


def _about_this_rank(endpoint: _core.Endpoint, settings: Settings) -> dict[str, Any]:
    return {
        "host": host_id(),
        "boot": boot_id(),
        "pid": os.getpid(),
        "segment": endpoint.segment,
        "agreed": [settings.slots, settings.slot_bytes],
        "cores": allowed_cores(),
    }


def _check_agreement(table: Table, rank: int) -> None:
    agreed = table[rank]["agreed"]
    for peer, entry in enumerate(table):
        if entry["agreed"] != agreed:
            raise ConnectError(
                f"rank {peer} has HEMIOLA_SLOTS and HEMIOLA_SLOT_BYTES {entry['agreed']}, rank {rank} has {agreed}; "
                "give every rank the same"
            )


def _own_address(environment: Environment, table: Table) -> str:
    """The address at which this rank listens, which the other hosts must be able to reach."""
    where = choose_address(environment.interfaces, environment.local_rank, environment.master_addr)
    if is_loopback(where) and any(entry["boot"] != boot_id() for entry in table):
        raise ConnectError(
            f"rank {environment.rank} would listen at {where}, which other hosts cannot reach: set HEMIOLA_IFNAME to "
            "its interface, or MASTER_ADDR to an address of rank 0 that is not this host's loopback"
        )
    return where


def _exchange_addresses(
    exchange: StoreExchange, endpoint: _core.Endpoint, links: PeerLinks, neighbours: list[int], table: Table
) -> None:
    """Exchange the addresses of all listeners, and open the pipes that wake ranks of this host while they poll links."""
    heard = exchange.all_gather("link", [links.address, links.port, endpoint.open_pipe()])
    links.learn((host, port) for host, port, _ in heard)
    for peer in neighbours:
        pipe = _descriptor_of(peer, table[peer]["pid"], heard[peer][2], os.O_WRONLY | os.O_NONBLOCK)
        endpoint.join_pipe(peer, pipe)


def _configure(
    endpoint: _core.Endpoint, settings: Settings, cores: Mapping[int, Core], rank: int, *, has_links: bool
) -> None:
    num_local, core = len(cores), cores[rank]
    endpoint.configure(
        workers=settings.num_workers(num_local),
        spins=settings.num_spins(num_local, has_links=has_links),
        yield_seconds=settings.seconds_of_yielding(num_local, has_links=has_links),
        timeout_seconds=settings.timeout,
        crowd_seconds=settings.crowd_seconds(num_local),
        pin_core=core.number if settings.pin == "calls" and core.shared_evenly else -1,
        ranks_per_core=max(other.num_ranks for other in cores.values()),
    )
    if settings.pin == "always":
        os.sched_setaffinity(0, {core.number})


def _descriptor_of(peer: int, pid: int, number: int, flags: int) -> int:
    """A file descriptor of a peer process on this host, opened again in this process."""
    if pid == os.getpid():
        return os.dup(number)
    try:
        return os.open(f"/proc/{pid}/fd/{number}", flags | os.O_CLOEXEC)
    except OSError as error:
        raise ConnectError(
            f"rank {peer} is on this host as process {pid}, but its memory cannot be opened ({error.strerror}); "
            "has it ended, or is it another user's? HEMIOLA_HOST_ID tells hosts apart by hand"
        ) from error
