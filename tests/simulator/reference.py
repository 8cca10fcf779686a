"""A slow simulator that is easy to see to be right, to judge the fast one by.

Time is an exact fraction. Everything that can begin begins; then the rates of all flows are found from
nothing by raising them together until they meet a full resource or their own limit; then time goes on to
whatever ends first.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from hemiola.ir.opcodes import TRAITS
from hemiola.ir.plan import NO_PEER, Plan
from hemiola.simulator.replay import protocol_of
from hemiola.simulator.runtimes.runtime_model import RuntimeModel
from hemiola.simulator.timeline import Load
from hemiola.topology.network import Network, network_of
from hemiola.topology.system import ProtocolCosts, System

ADDS = {"rrs", "rrc", "rrcs", "re"}


@dataclass
class Flow:
    """Bytes on their way through some resources, or a wait of a given time."""

    remaining: Fraction
    """Bytes, or seconds of a wait."""
    resources: list[Hashable]
    cap: Fraction | None
    rate: Fraction = Fraction(0)


@dataclass
class Channel:
    """Messages from one threadblock to another, in order."""

    route: list[Hashable]
    latency: Fraction
    message_bytes: Fraction = Fraction(0)
    """That every message takes of the route beside its data."""
    queued: list[Fraction] = field(default_factory=list)
    """Sizes of messages that wait to be sent."""
    flow: Flow | None = None
    travelling: list[Flow] = field(default_factory=list)
    arrived: int = 0
    received: int = 0
    acted: int = 0


@dataclass
class Block:
    """A threadblock while it runs."""

    plan: Plan
    row: int
    rank: int
    device: int
    tiles: list[Fraction]
    step_seconds: Fraction
    cap: Fraction | None
    send_cap: Fraction | None
    """Of direct sends."""
    receive_cap: Fraction | None
    direct: bool
    """Sending is work: it takes the route itself, and ends when the last byte has left."""
    act_seconds: list[float]
    """Of the steps of the plan."""
    siblings: list[Block]
    sends: Channel | None
    receives: Channel | None
    done: int = 0
    """Steps over all tiles."""
    phases: list[Flow] = field(default_factory=list)
    """What is left of the step that it is in."""
    busy: bool = False
    end: Fraction = Fraction(0)

    @property
    def steps(self) -> range:
        return self.plan.steps_of(self.row)

    @property
    def is_done(self) -> bool:
        return self.done == len(self.steps) * len(self.tiles)


class Reference:
    """All plans at once, stepped."""

    def __init__(self, loads: Sequence[Load], system: System, runtime: RuntimeModel) -> None:
        self.system, self.runtime = system, runtime
        self.launching: list[tuple[Flow, list[Block]]] = []
        self.slots = runtime.num_slots(load.plan for load in loads)
        self.network: Network = network_of(system, protocol_of(loads[0].plan, system))
        self.capacities: dict[Hashable, Fraction] = {
            link: Fraction(float(capacity)) for link, capacity in enumerate(self.network.capacities)
        }
        self.channels: dict[Hashable, Channel] = {}
        self.blocks: list[Block] = []
        self.now = Fraction(0)
        for number, load in enumerate(loads):
            self._add(number, load)

    def _add(self, number: int, load: Load) -> None:
        plan, protocol = load.plan, protocol_of(load.plan, self.system)
        devices = list(load.devices) if load.devices is not None else list(range(plan.num_ranks))
        hosts = [self.system.host_of_rank[device] for device in devices]
        tiles = [
            Fraction(float(size))
            for size in self.runtime.tiles(plan, load.num_bytes, hosts, self.system.compute.host_cores)
        ]
        lowered = self.runtime.lower(plan, load.num_bytes)
        plan = lowered.plan
        act_seconds = lowered.act_seconds(protocol.act_seconds if self.runtime.interprets else 0.0).tolist()
        first = len(self.blocks)
        for rank in range(plan.num_ranks):
            siblings: list[Block] = []
            for row in plan.threadblocks_of(rank):
                block = plan.threadblocks[row]
                to, back, channel = int(block["send_peer"]), int(block["recv_peer"]), int(block["channel"])
                cap, receive = protocol.threadblock_bandwidth, protocol.receive_bandwidth
                inside = to not in (NO_PEER, rank) and hosts[to] == hosts[rank]
                siblings.append(
                    Block(
                        plan=plan,
                        row=row,
                        rank=rank,
                        device=devices[rank],
                        tiles=tiles,
                        step_seconds=Fraction(protocol.step_seconds),
                        cap=_cap(cap),
                        send_cap=_cap(protocol.send_bandwidth),
                        receive_cap=_cap(min(cap, receive)),
                        direct=self.runtime.direct_sends and inside,
                        act_seconds=act_seconds,
                        siblings=siblings,
                        sends=None
                        if to == NO_PEER
                        else self._channel(number, devices, rank, to, channel, protocol),
                        receives=None
                        if back == NO_PEER
                        else self._channel(number, devices, back, rank, channel, protocol),
                    )
                )
            self.blocks += siblings
        if protocol.launch_seconds:
            launched = self.blocks[first:]
            for block in launched:
                block.busy, block.phases, block.end = True, [], Fraction(protocol.launch_seconds)
            self.launching.append((_wait(Fraction(protocol.launch_seconds)), launched))

    def _channel(
        self, load: int, devices: list[int], src: int, dst: int, channel: int, protocol: ProtocolCosts
    ) -> Channel:
        key = (load, src, dst, channel)
        if key not in self.channels:
            route = self.network.route(devices[src], devices[dst])
            latency = sum(float(self.network.latencies[link]) for link in route)
            latency += protocol.latency if route else 0.0
            self.channels[key] = Channel(list(route), Fraction(latency))
            hosts = [self.system.host_of_rank[devices[rank]] for rank in (src, dst)]
            if hosts[0] != hosts[1]:
                narrowest = min(float(self.network.capacities[link]) for link in route)
                self.channels[key].message_bytes = Fraction(protocol.nic_seconds) * Fraction(narrowest)
        return self.channels[key]

    def run(self) -> list[float]:
        """When each threadblock ends."""
        while True:
            self._launch()
            while any([*map(self._act, self.blocks), *map(self._move, self.channels.values())]):
                pass
            flows = self._flows()
            if not flows:
                assert all(block.is_done for block in self.blocks), "it does not end"
                return [float(block.end) for block in self.blocks]
            self._share(flows)
            step = min(flow.remaining / flow.rate for flow in flows)
            self.now += step
            for flow in flows:
                flow.remaining -= flow.rate * step

    def _launch(self) -> None:
        """Threadblocks whose call has been launched go on."""
        for flow, blocks in self.launching:
            if flow.remaining == 0:
                for block in blocks:
                    block.busy = False
        self.launching = [one for one in self.launching if one[0].remaining > 0]

    def _flows(self) -> list[Flow]:
        acts = [block.phases[0] for block in self.blocks if block.busy and block.phases]
        acts += [flow for flow, _ in self.launching]
        sent = [channel.flow for channel in self.channels.values() if channel.flow is not None]
        travelling = [flow for channel in self.channels.values() for flow in channel.travelling]
        return acts + sent + travelling

    def _share(self, flows: list[Flow]) -> None:
        """Raise all rates together; who meets a full resource or its limit stays there."""
        for flow in flows:
            flow.rate = Fraction(0)
        left = dict(self.capacities)
        open_flows = list(flows)
        while open_flows:
            users: dict[Hashable, int] = {}
            for flow in open_flows:
                for resource in flow.resources:
                    users[resource] = users.get(resource, 0) + 1
            rises = [left[resource] / count for resource, count in users.items()]
            rises += [flow.cap - flow.rate for flow in open_flows if flow.cap is not None]
            rise = min(rises)
            for flow in open_flows:
                flow.rate += rise
                for resource in flow.resources:
                    left[resource] -= rise
            open_flows = [
                flow
                for flow in open_flows
                if flow.rate != flow.cap and all(left[resource] > 0 for resource in flow.resources)
            ]

    def _act(self, block: Block) -> bool:
        """Whether a threadblock could begin or end something."""
        if any(block in blocks for _, blocks in self.launching):
            return False
        if block.busy:
            return self._end_phases(block)
        if block.is_done:
            return False
        tile, number = divmod(block.done, len(block.steps))
        row = block.steps[number]
        step, traits = block.plan.steps[row], TRAITS[int(block.plan.steps["opcode"][row])]
        for dependency in block.plan.dependencies_of(row):
            wait = block.plan.dependencies[dependency]
            other = block.siblings[int(wait["threadblock"])]
            if other.done <= tile * len(other.steps) + int(wait["step"]):
                return False
        if traits.receives:
            assert block.receives is not None
            if block.receives.arrived == block.receives.received:
                return False
        if traits.sends:
            assert block.sends is not None
            if block.sends.acted - block.sends.received >= self.slots:
                return False
        size = block.tiles[tile] * int(step["count"])
        block.busy = True
        block.phases = [_wait(Fraction(block.act_seconds[row]))]
        if traits.sends:
            block.phases.append(_wait(block.step_seconds))
        stays = traits.name == "cpy" and (step["src_buffer"], step["src_index"]) == (
            step["dst_buffer"],
            step["dst_index"],
        )
        if traits.name != "nop" and not stays:
            if block.direct and traits.sends:
                assert block.sends is not None
                work = self._work(block, size, block.send_cap, adds=traits.name in ADDS)
                block.phases.append(Flow(size, [*block.sends.route, *work.resources], block.send_cap))
            else:
                cap = block.receive_cap if traits.receives else block.cap
                block.phases.append(self._work(block, size, cap, adds=traits.name in ADDS))
        return True

    def _work(self, block: Block, size: Fraction, cap: Fraction | None, *, adds: bool) -> Flow:
        compute, host = self.system.compute, self.system.host_of_rank[block.device]
        kinds = {
            "cores": (compute.core_bandwidth, compute.host_core_bandwidth),
            "adds" if adds else "copies": (compute.add_bandwidth, compute.host_add_bandwidth)
            if adds
            else (compute.copy_bandwidth, compute.host_copy_bandwidth),
        }
        resources: list[Hashable] = []
        for kind, bandwidths in kinds.items():
            for bandwidth, owner in zip(bandwidths, (("device", block.device), ("host", host)), strict=True):
                if not math.isinf(bandwidth):
                    resources.append((kind, owner))
                    self.capacities[kind, owner] = Fraction(bandwidth)
        if not resources and cap is None:
            return _wait(Fraction(0))
        return Flow(size, resources, cap)

    def _end_phases(self, block: Block) -> bool:
        while block.phases and block.phases[0].remaining == 0:
            block.phases.pop(0)
        if block.phases:
            return False
        tile, number = divmod(block.done, len(block.steps))
        row = block.steps[number]
        traits = TRAITS[int(block.plan.steps["opcode"][row])]
        if traits.sends:
            assert block.sends is not None
            block.sends.acted += 1
            if block.direct:
                block.sends.travelling.append(_wait(block.sends.latency))
            else:
                size = block.tiles[tile] * int(block.plan.steps["count"][row])
                block.sends.queued.append(size + block.sends.message_bytes)
        if traits.receives:
            assert block.receives is not None
            block.receives.received += 1
        block.busy = False
        block.done += 1
        block.end = self.now
        return True

    def _move(self, channel: Channel) -> bool:
        """Whether a message could leave, or arrive."""
        moved = False
        if channel.flow is not None and channel.flow.remaining == 0:
            channel.travelling.append(_wait(channel.latency))
            channel.flow = None
            moved = True
        if channel.flow is None and channel.queued:
            size = channel.queued.pop(0)
            channel.flow = Flow(size, channel.route, None) if channel.route else _wait(Fraction(0))
            moved = True
        while channel.travelling and channel.travelling[0].remaining == 0:
            channel.travelling.pop(0)
            channel.arrived += 1
            moved = True
        return moved


def _cap(bandwidth: float) -> Fraction | None:
    return None if math.isinf(bandwidth) else Fraction(bandwidth)


def _wait(seconds: Fraction) -> Flow:
    return Flow(seconds, [], Fraction(1))


def reference_seconds(loads: Sequence[Load], system: System, runtime: RuntimeModel) -> list[float]:
    """When each threadblock of all plans ends, in order."""
    return Reference(loads, system, runtime).run()
