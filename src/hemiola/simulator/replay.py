"""replay: a plan's own tables, stepped as the executor steps them, on a model of a system.

What is modelled is said in docs/simulator.md. Ranks that are provably alike are simulated once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hemiola import _core
from hemiola.errors import PlanError, TopologyError
from hemiola.ir.plan import NO_PEER, Plan
from hemiola.ir.rows import from_bytes, plan_view
from hemiola.simulator.runtimes.hemiola import HEMIOLA
from hemiola.simulator.runtimes.runtime_model import RuntimeModel, Tiles
from hemiola.simulator.timeline import PIECE, RECORD, Load, Timeline
from hemiola.topology.network import Network, network_of
from hemiola.topology.system import ProtocolCosts, System

NO_RESOURCE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """How to simulate; what comes out is the same but for what is kept."""

    fold: bool = True
    """Simulate one of all ranks that are provably alike."""
    record: bool = False
    """Keep every step of every tile, for traces and the critical path."""
    most_recorded: int = (1 << 63) - 1
    """Where more steps than this are simulated, none is kept, because they would take too much memory."""
    by_events: bool = False
    """Go from event to event also where nothing is shared and times could be had without a clock."""


FOLDED = ReplayOptions()


def simulate(
    plan: Plan,
    system: System,
    num_bytes: float,
    *,
    devices: Sequence[int] | None = None,
    runtime: RuntimeModel = HEMIOLA,
    options: ReplayOptions = FOLDED,
) -> Timeline:
    """How a plan runs for a collective of ``num_bytes``; rank r is on the system's device r, or on ``devices[r]``."""
    return simulate_together([Load(plan, num_bytes, devices)], system, runtime=runtime, options=options)


def simulate_together(
    loads: Sequence[Load],
    system: System,
    *,
    runtime: RuntimeModel = HEMIOLA,
    options: ReplayOptions = FOLDED,
) -> Timeline:
    """How several plans run that begin at once and share the system."""
    protocols = [protocol_of(load.plan, system) for load in loads]
    network = network_of(system, _one_efficiency(protocols))
    resources = _Resources.of(network)
    placed = [_devices(load, system) for load in loads]
    tiles = _cut(loads, placed, system, runtime)
    jobs = [
        _job(load.plan, protocol, own) for load, protocol, own in zip(loads, protocols, tiles, strict=True)
    ]
    ends = [_ends(load.plan, devices) for load, devices in zip(loads, placed, strict=True)]
    num_slots = runtime.num_slots(load.plan for load in loads)
    src, dst = np.concatenate(ends, axis=1) if ends else np.empty((2, 0), np.int64)
    first_hop, hops = network.routes(src, dst)
    result = _core.simulate(
        jobs,
        capacities=resources.capacities,
        first_hop=first_hop,
        hops=hops,
        latencies=_latencies(network, first_hop, hops, loads, protocols),
        work=resources.of_devices[src].reshape(-1),
        slots=num_slots,
        fold=options.fold,
        most_records=options.most_recorded if options.record else 0,
        events=options.by_events,
    )
    if not result.ended:
        raise PlanError(
            f"the plan does not end with {num_slots} slots: some threadblock waits forever; hemiola verify says which"
        )
    return Timeline(
        system=system,
        network=network,
        loads=tuple(loads),
        seconds=result.seconds,
        threadblock_seconds=result.threadblock_seconds,
        threadblock_class=result.threadblock_class,
        resource_class=result.resource_class,
        chunk_bytes=tuple(tiles),
        first_hop=first_hop,
        hops=hops,
        num_simulated=result.num_simulated,
        by_events=result.by_events,
        records=from_bytes(result.records, RECORD),
        pieces=from_bytes(result.path, PIECE)[::-1],
        protocols=tuple(protocols),
    )


def _job(plan: Plan, protocol: ProtocolCosts, chunk_bytes: Tiles) -> _core.Job:
    """A plan as the core takes it."""
    return _core.Job(
        plan_view(plan),
        tile_bytes=chunk_bytes,
        step_seconds=protocol.step_seconds,
        threadblock_bandwidth=protocol.threadblock_bandwidth,
    )


def protocol_of(plan: Plan, system: System) -> ProtocolCosts:
    """The system's numbers for the plan's protocol: by its name, else the system's first, else none at all."""
    known = system.protocols
    return known.get(plan.protocol.value) or next(iter(known.values()), ProtocolCosts())


def _one_efficiency(protocols: Sequence[ProtocolCosts]) -> ProtocolCosts:
    found = {protocol.efficiency for protocol in protocols}
    if len(found) > 1:
        raise TopologyError(
            f"plans whose protocols use {min(found):.2f} and {max(found):.2f} of a link cannot be simulated"
            " together; give them the same protocol"
        )
    return protocols[0] if protocols else ProtocolCosts()


def _cut(
    loads: Sequence[Load], placed: Sequence[npt.NDArray[np.int64]], system: System, runtime: RuntimeModel
) -> list[Tiles]:
    """The tiles of every load; loads of one plan and size that lie on hosts alike are cut once."""
    hosts = np.array(system.host_of_rank, np.int64)
    known: dict[tuple[object, ...], Tiles] = {}
    found = []
    for load, devices in zip(loads, placed, strict=True):
        on = tuple(np.unique(hosts[devices], return_inverse=True)[1].tolist())
        key = (id(load.plan), load.num_bytes, on)
        if key not in known:
            known[key] = runtime.tiles(load.plan, load.num_bytes, on, system.compute.host_cores)
        found.append(known[key])
    return found


def _devices(load: Load, system: System) -> npt.NDArray[np.int64]:
    """The device of every rank."""
    plan = load.plan
    if load.devices is None and plan.num_ranks > system.num_ranks:
        raise TopologyError(
            f"plan {plan.name!r} has {plan.num_ranks} ranks, but system {system.name!r} has {system.num_ranks} devices"
        )
    devices = np.arange(plan.num_ranks) if load.devices is None else np.asarray(load.devices, np.int64)
    if len(devices) != plan.num_ranks or len(np.unique(devices)) != len(devices):
        raise TopologyError(
            f"plan {plan.name!r} needs {plan.num_ranks} different devices, but {len(devices)} were given,"
            f" {len(np.unique(devices))} of them different"
        )
    if devices.size and not (devices.min() >= 0 and devices.max() < system.num_ranks):
        raise TopologyError(
            f"system {system.name!r} has devices 0 to {system.num_ranks - 1},"
            f" but plan {plan.name!r} was put on device {int(devices.max())}"
        )
    return devices


def _ends(plan: Plan, devices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The devices from and to which each threadblock sends; the same twice where it does not."""
    rank = plan.threadblocks["rank"].astype(np.int64)
    peer = plan.threadblocks["send_peer"].astype(np.int64)
    return np.stack([devices[rank], devices[np.where(peer == NO_PEER, rank, peer)]])


def _latencies(
    network: Network,
    first_hop: npt.NDArray[np.int64],
    hops: npt.NDArray[np.int64],
    loads: Sequence[Load],
    protocols: Sequence[ProtocolCosts],
) -> npt.NDArray[np.float64]:
    """What the messages of each threadblock take beside their bytes: their links, and their protocol."""
    numbers = [len(load.plan.threadblocks) for load in loads]
    own = np.repeat([protocol.latency for protocol in protocols], numbers)
    return _sums(network.latencies[hops], first_hop) + np.where(np.diff(first_hop) > 0, own, 0.0)


def _sums(values: npt.NDArray[np.float64], first: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Sums of runs, some of which may be empty; equal runs give equal sums to the last bit."""
    sums = np.zeros(len(first) - 1)
    lengths = np.diff(first)
    for k in range(int(lengths.max(initial=0))):
        longer = lengths > k
        sums[longer] += values[first[:-1][longer] + k]
    return sums


@dataclass(frozen=True, slots=True)
class _Resources:
    """Links first, then what devices and hosts share when they add and copy."""

    capacities: npt.NDArray[np.float64]
    of_devices: npt.NDArray[np.int32]
    """Per device: for adding its own resource and its host's, for copying the same; NO_RESOURCE without a limit."""

    @staticmethod
    def of(network: Network) -> _Resources:
        system, compute = network.system, network.system.compute
        hosts, devices = np.array(system.host_of_rank, np.int64), np.arange(system.num_ranks)
        capacities, columns, first = [network.capacities], [], network.num_links
        for bandwidth, of_host in compute.limits():
            members, count = (hosts, system.num_hosts) if of_host else (devices, system.num_ranks)
            if math.isinf(bandwidth):
                columns.append(np.full(system.num_ranks, NO_RESOURCE))
                continue
            columns.append(members + first)
            capacities.append(np.full(count, bandwidth))
            first += count
        *apart, core, host_core = columns
        in_turn = (core != NO_RESOURCE).any() or (host_core != NO_RESOURCE).any()
        used = [core, host_core, core, host_core] if in_turn else apart
        return _Resources(np.concatenate(capacities), np.stack(used, axis=1).astype(np.int32))
