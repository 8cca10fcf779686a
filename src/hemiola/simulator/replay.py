"""replay: a plan's own tables, stepped as the executor steps them, on a model of a system.

What is modelled is said in docs/simulator.md. Ranks that are provably alike are simulated once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hemiola import _core
from hemiola.errors import PlanError, TopologyError
from hemiola.ir.plan import NO_PEER, Plan
from hemiola.ir.rows import from_bytes, plan_view
from hemiola.simulator.runtimes.by_name import runtime_of
from hemiola.simulator.runtimes.runtime_model import LoweredPlan, RuntimeModel, Tiles
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
    runtime: RuntimeModel | None = None,
    options: ReplayOptions = FOLDED,
) -> Timeline:
    """How a plan runs for a collective of ``num_bytes``; rank r is on the system's device r, or on ``devices[r]``."""
    return simulate_together([Load(plan, num_bytes, devices)], system, runtime=runtime, options=options)


def simulate_together(
    loads: Sequence[Load],
    system: System,
    *,
    runtime: RuntimeModel | None = None,
    options: ReplayOptions = FOLDED,
) -> Timeline:
    """How several plans run that begin at once and share the system; by default with the system's runtime."""
    runtime = runtime or runtime_of(system)
    stage = _Stage.of(loads, system, runtime)
    tiles = _cut(loads, stage.placed, system, runtime)
    result = _core.simulate(
        stage.jobs(tiles),
        capacities=stage.capacities,
        first_hop=stage.first_hop,
        hops=stage.hops,
        latencies=stage.latencies,
        work=stage.work,
        message_bytes=stage.message_bytes,
        direct=stage.direct,
        slots=stage.num_slots,
        fold=options.fold,
        most_records=options.most_recorded if options.record else 0,
        events=options.by_events,
    )
    if not result.ended:
        raise never_ends(stage.num_slots)
    return Timeline(
        system=system,
        network=stage.network,
        loads=tuple(stage.loads),
        seconds=result.seconds,
        threadblock_seconds=result.threadblock_seconds,
        threadblock_class=result.threadblock_class,
        resource_class=result.resource_class,
        chunk_bytes=tuple(tiles),
        first_hop=stage.first_hop,
        hops=stage.hops,
        num_simulated=result.num_simulated,
        by_events=result.by_events,
        records=from_bytes(result.records, RECORD),
        pieces=from_bytes(result.path, PIECE)[::-1],
        protocols=stage.protocols,
    )


def rehearse(
    loads: Sequence[Load], tile_kinds: Sequence[int], system: System, runtime: RuntimeModel
) -> _core.Rehearsal:
    """Loads that are wired and folded once, for replays with many tiles; those of one kind always have the same tiles."""
    stage = _Stage.of(loads, system, runtime)
    return _core.Rehearsal(
        stage.jobs([np.empty(0)] * len(loads)),
        tile_kinds=np.array(tile_kinds, np.uint32),
        capacities=stage.capacities,
        first_hop=stage.first_hop,
        hops=stage.hops,
        latencies=stage.latencies,
        work=stage.work,
        message_bytes=stage.message_bytes,
        direct=stage.direct,
        slots=stage.num_slots,
    )


def never_ends(num_slots: int) -> PlanError:
    """The error for a plan of which some threadblock waits forever."""
    return PlanError(
        f"the plan does not end with {num_slots} slots: some threadblock waits forever; hemiola verify says which"
    )


@dataclass(frozen=True, slots=True)
class _Stage:
    """Loads on a system, as the core takes them but for their tiles."""

    loads: Sequence[Load]
    """With plans as the runtime runs them."""
    lowered: Sequence[LoweredPlan]
    protocols: tuple[ProtocolCosts, ...]
    network: Network
    placed: list[npt.NDArray[np.int64]]
    """The devices of every load."""
    capacities: npt.NDArray[np.float64]
    first_hop: npt.NDArray[np.int64]
    hops: npt.NDArray[np.int64]
    latencies: npt.NDArray[np.float64]
    work: npt.NDArray[np.int32]
    message_bytes: npt.NDArray[np.float64]
    direct: npt.NDArray[np.uint8]
    num_slots: int
    interprets: bool

    @staticmethod
    def of(loads: Sequence[Load], system: System, runtime: RuntimeModel) -> _Stage:
        protocols = tuple(protocol_of(load.plan, system) for load in loads)
        network = network_of(system, _one_efficiency(protocols))
        resources = _Resources.of(network)
        placed = [_devices(load, system) for load in loads]
        lowered = [runtime.lower(load.plan, load.num_bytes) for load in loads]
        loads = [replace(load, plan=one.plan) for load, one in zip(loads, lowered, strict=True)]
        ends = [_ends(load.plan, devices) for load, devices in zip(loads, placed, strict=True)]
        src, dst = np.concatenate(ends, axis=1) if ends else np.empty((2, 0), np.int64)
        first_hop, hops = network.routes(src, dst)
        hosts = np.array(system.host_of_rank, np.int64)
        between = hosts[src] != hosts[dst]
        return _Stage(
            loads,
            lowered,
            protocols,
            network,
            placed,
            resources.capacities,
            first_hop,
            hops,
            _latencies(network, first_hop, hops, loads, protocols),
            resources.of_devices[src].reshape(-1),
            _nic_bytes(network, first_hop, hops, between, lowered, protocols),
            (~between & (src != dst) & runtime.direct_sends).astype(np.uint8),
            runtime.num_slots(load.plan for load in loads),
            runtime.interprets,
        )

    def jobs(self, tiles: Sequence[Tiles]) -> list[_core.Job]:
        """The plans with their tiles."""
        every = zip(self.lowered, self.protocols, tiles, strict=True)
        return [_job(one, protocol, own, interprets=self.interprets) for one, protocol, own in every]


def _job(lowered: LoweredPlan, protocol: ProtocolCosts, chunk_bytes: Tiles, *, interprets: bool) -> _core.Job:
    """A plan as the core takes it."""
    read = interprets and protocol.act_seconds > 0
    return _core.Job(
        plan_view(lowered.plan),
        tile_bytes=chunk_bytes,
        step_seconds=protocol.step_seconds,
        threadblock_bandwidth=protocol.threadblock_bandwidth,
        send_bandwidth=protocol.send_bandwidth,
        receive_bandwidth=min(protocol.receive_bandwidth, protocol.threadblock_bandwidth),
        launch_seconds=protocol.launch_seconds,
        act_seconds=lowered.act_seconds(protocol.act_seconds) if read else np.empty(0),
    )


def _nic_bytes(
    network: Network,
    first_hop: npt.NDArray[np.int64],
    hops: npt.NDArray[np.int64],
    between: npt.NDArray[np.bool_],
    lowered: Sequence[LoweredPlan],
    protocols: Sequence[ProtocolCosts],
) -> npt.NDArray[np.float64]:
    """What the messages of each threadblock take of a NIC beside their data: as much as its narrowest link moves meanwhile."""
    seconds = np.repeat(
        [protocol.nic_seconds * one.posted_share for protocol, one in zip(protocols, lowered, strict=True)],
        [len(one.plan.threadblocks) for one in lowered],
    )
    found = np.zeros(len(between))
    for number in np.flatnonzero(between & (seconds > 0)).tolist():
        route = hops[first_hop[number] : first_hop[number + 1]]
        found[number] = seconds[number] * float(network.capacities[route].min())
    return found


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
