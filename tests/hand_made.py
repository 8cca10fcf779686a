"""Small plans written out by hand, and random ones, whose verdicts can be worked out on paper."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hemiola.collectives import (
    AllGather,
    AllReduce,
    AllToNext,
    Broadcast,
    Buffer,
    Collective,
    Custom,
    SendRecv,
)
from hemiola.ir.opcodes import TRAITS, Opcode
from hemiola.ir.plan import NO_PEER, Plan
from interleavings import run_stops
from mutations import DraftBlock, DraftStep, Place, plan_of
from plan_network import read_network
from reference import one_order, run_values

INPUT, OUTPUT, SCRATCH = (int(buffer) for buffer in Buffer)


def step(
    name: str,
    source: Place = (0, 0),
    target: Place = (0, 0),
    count: int = 1,
    waits: list[Place] | None = None,
) -> DraftStep:
    """One step by the opcode's name; places are (buffer, index), waits (threadblock of the rank, step)."""
    opcode = Opcode[name.upper()]
    traits = TRAITS[opcode]
    return DraftStep(
        opcode,
        source if traits.reads_source else (0, 0),
        target if traits.writes_destination else (0, 0),
        count,
        list(waits or []),
    )


def block(
    rank: int, *steps: DraftStep, to: int = NO_PEER, source: int = NO_PEER, channel: int = 0
) -> DraftBlock:
    """A threadblock that sends to rank ``to`` and receives from rank ``source``."""
    return DraftBlock(rank, to, source, channel, list(steps))


def ring(num_ranks: int, *, fused: bool, count: int = 1) -> Plan:
    """An in-place all-reduce round a ring, one threadblock a rank; chunk c starts on rank c."""
    blocks = []
    for rank in range(num_ranks):
        own = (INPUT, rank * count)
        steps = [step("s", own, count=count)]
        for hop in range(1, 2 * num_ranks - 1):
            place = (INPUT, (rank - hop) % num_ranks * count)
            kept = hop >= num_ranks - 1
            reduces, last = hop < num_ranks, hop == 2 * num_ranks - 2
            takes = step("rrc" if reduces else "r", place, place, count)
            if fused and not last:
                both = ("rrcs" if kept else "rrs") if reduces else "rcs"
                steps.append(step(both, place, place, count))
            else:
                steps += [takes] if last else [takes, step("s", place, count=count)]
        blocks.append(block(rank, *steps, to=(rank + 1) % num_ranks, source=(rank - 1) % num_ranks))
    return plan_of(AllReduce(num_ranks, num_ranks * count, in_place=True), blocks)


def exchange(chunks: int, count: int = 1) -> Plan:
    """Two ranks swap their inputs, each in one threadblock: first all sends, then all receives."""
    blocks = []
    for rank in (0, 1):
        sends = [step("s", (INPUT, i), count=count) for i in range(0, chunks, count)]
        receives = [step("r", target=(OUTPUT, i), count=count) for i in range(0, chunks, count)]
        blocks.append(block(rank, *sends, *receives, to=1 - rank, source=1 - rank))
    promises = {(rank, i): [(1 - rank, i)] for rank in (0, 1) for i in range(chunks)}
    swap = Custom(input_chunks=[chunks] * 2, output_chunks=[chunks] * 2, promises=promises)
    return plan_of(swap, blocks)


def relay(*, waits: bool) -> Plan:
    """Rank 0 broadcasts over rank 1 to rank 2; rank 1 receives and sends in different threadblocks."""
    after = [(0, 0)] if waits else []
    return plan_of(
        Broadcast(3, in_place=True),
        [
            block(0, step("s"), to=1),
            block(1, step("r"), source=0),
            block(1, step("s", waits=after), to=2),
            block(2, step("r"), source=1),
        ],
    )


def gather_by_pairs(num_ranks: int) -> Plan:
    """An all-gather in which every rank sends to every other, one threadblock a peer and direction."""
    blocks = []
    for rank in range(num_ranks):
        blocks.append(block(rank, step("cpy", (INPUT, 0), (OUTPUT, rank))))
        for peer in (peer for peer in range(num_ranks) if peer != rank):
            blocks.append(block(rank, step("s", (INPUT, 0)), to=peer))
            blocks.append(block(rank, step("r", target=(OUTPUT, peer)), source=peer))
    return plan_of(AllGather(num_ranks), blocks)


def sum_through_scratch() -> Plan:
    """Two ranks all-reduce out of place: receive to scratch, copy, add, in threadblocks of their own."""
    blocks = []
    for rank in (0, 1):
        blocks += [
            block(rank, step("s", (INPUT, 0)), step("nop", waits=[(1, 0)]), to=1 - rank),
            block(rank, step("r", target=(SCRATCH, 0)), source=1 - rank),
            block(
                rank,
                step("cpy", (INPUT, 0), (OUTPUT, 0)),
                step("re", (SCRATCH, 0), (OUTPUT, 0), waits=[(1, 0)]),
            ),
        ]
    return plan_of(AllReduce(2), blocks, scratch=1)


def streaming_chain(count: int) -> Plan:
    """Rank 0's chunks pass through rank 1, fused, to rank 2, as one long step."""
    return plan_of(
        Broadcast(3, count, in_place=True),
        [
            block(0, step("s", count=count), to=1),
            block(1, step("rcs", count=count), to=2, source=0),
            block(2, step("r", count=count), source=1),
        ],
    )


def next_neighbours(chunks: int) -> Plan:
    """All-to-next on three ranks; the middle rank sends and receives in two threadblocks."""
    sends = [step("s", (INPUT, i)) for i in range(chunks)]
    receives = [step("r", target=(OUTPUT, i)) for i in range(chunks)]
    return plan_of(
        AllToNext(3, chunks),
        [
            block(0, *sends, to=1),
            block(1, *receives, source=0),
            block(1, *sends, to=2),
            block(2, *receives, source=1),
        ],
    )


def delivery(*steps: DraftStep, receives: list[DraftStep], collective: Collective | None = None) -> Plan:
    """Rank 0 performs ``steps`` and rank 1 ``receives``, over one connection."""
    meant = collective or SendRecv(2, len(receives))
    return plan_of(meant, [block(0, *steps, to=1), block(1, *receives, source=0)])


def reduce_by_pairs(num_ranks: int, count: int, instances: int = 1) -> Plan:
    """An in-place all-reduce in two steps, as RCCL ships several: every rank sends every other its part, ``count`` chunks at
    once, receives its own part from all, adds it up, and sends and receives the sums in the same threadblocks."""
    blocks = []
    for rank in range(num_ranks):
        peers = [peer for peer in range(num_ranks) if peer != rank]
        for instance in range(instances):
            first, part = instance * num_ranks, instance * num_ranks * count
            scratch = [(SCRATCH, (instance * len(peers) + k) * count) for k in range(len(peers))]
            own = (INPUT, part + rank * count)
            adds = [step("re", at, own, count, [(first + 1 + k, 1)]) for k, at in enumerate(scratch)]
            blocks.append(block(rank, *adds, channel=instance))
            for k, peer in enumerate(peers):
                other = (INPUT, part + peer * count)
                steps = (
                    step("s", other, count=count),
                    step("r", target=scratch[k], count=count),
                    step("s", own, count=count, waits=[(first, len(peers) - 1)]),
                    step("r", target=other, count=count),
                )
                blocks.append(block(rank, *steps, to=peer, source=peer, channel=instance))
    chunks = num_ranks * count * instances
    return plan_of(
        AllReduce(num_ranks, chunks, in_place=True), blocks, scratch=(num_ranks - 1) * count * instances
    )


def depending_on_size() -> dict[str, Plan]:
    """Plans that are right, but end only while enough chunks of a step fit into a message."""
    return {
        "pairs2 of 8": reduce_by_pairs(2, 8),
        "pairs3 of 5": reduce_by_pairs(3, 5),
        "pairs3 of 4, twice": reduce_by_pairs(3, 4, 2),
        "exchange of 20": exchange(20, 20),
        "exchange of 12 by 4": exchange(12, 4),
        "ring3 of 6": ring(3, fused=False, count=6),
        "fused ring3 of 6": ring(3, fused=True, count=6),
        "chain of 9": streaming_chain(9),
    }


def everything() -> dict[str, Plan]:
    """Correct plans of all shapes above."""
    return {
        "ring2": ring(2, fused=False),
        "ring3": ring(3, fused=False),
        "ring3_fused": ring(3, fused=True),
        "ring2_long": ring(2, fused=False, count=2),
        "exchange": exchange(2),
        "relay": relay(waits=True),
        "pairs2": gather_by_pairs(2),
        "pairs3": gather_by_pairs(3),
        "scratch": sum_through_scratch(),
        "chain": streaming_chain(2),
        "next": next_neighbours(2),
    }


def random_plan(
    random: Random, num_ranks: int = 2, num_messages: int = 4, *, collective: Collective | None = None
) -> Plan:
    """A plan of random steps whose messages all match; most of them race, stop or achieve nothing.

    A ``collective`` of one's own needs at least three chunks in every buffer.
    """
    chunks = 3
    blocks = [
        block(rank, to=to, source=source, channel=channel)
        for channel in range(2)
        for rank in range(num_ranks)
        for to, source in _random_peers(random, rank, num_ranks, channel)
    ]
    for _ in range(num_messages):
        giver, taker = random.choice(_ends(blocks))
        count = random.choice([1, 1, 2])
        giver.steps.append(_random_step(random, "s", count, chunks))
        taker.steps.append(_random_step(random, random.choice(["r", "rrc"]), count, chunks))
    for one in blocks:
        _fuse_some(random, one)
        for _ in range(random.randrange(2)):
            local = _random_step(random, random.choice(["cpy", "re", "nop"]), 1, chunks)
            one.steps.insert(random.randrange(len(one.steps) + 1), local)
    blocks = sorted((one for one in blocks if one.steps), key=lambda one: one.rank)
    _add_waits(random, blocks)
    return plan_of(collective or AllReduce(num_ranks, chunks), blocks, scratch=chunks)


def promise_what_it_does(plan: Plan) -> Plan:
    """The plan with a collective that promises what one run of it leaves in the outputs.

    Unless it races or stops, the plan is then correct. Sums that count a contribution twice are not promised.
    """
    network = read_network(plan)
    if run_stops(network, None, None):
        return plan
    promises = {
        (rank, index): [origin for origin, _ in value]
        for (rank, buffer, index), value in run_values(network, one_order(network)).items()
        if buffer == OUTPUT and value is not None and all(times == 1 for _, times in value)
    }
    inputs, outputs = (sizes.tolist() for sizes in plan.collective.named_chunks())
    return replace(plan, collective=Custom(input_chunks=inputs, output_chunks=outputs, promises=promises))


def _random_peers(random: Random, rank: int, num_ranks: int, channel: int) -> list[Place]:
    """A ring in both directions, either in one threadblock a rank and channel or in two."""
    shift = 1 if channel == 0 else -1
    to, source = (rank + shift) % num_ranks, (rank - shift) % num_ranks
    return [(to, source)] if random.random() < 0.5 else [(to, NO_PEER), (NO_PEER, source)]


def _ends(blocks: list[DraftBlock]) -> list[tuple[DraftBlock, DraftBlock]]:
    return [
        (giver, taker)
        for giver in blocks
        for taker in blocks
        if giver.channel == taker.channel and giver.send_peer == taker.rank and taker.recv_peer == giver.rank
    ]


def _random_step(random: Random, name: str, count: int, chunks: int) -> DraftStep:
    buffers = [random.choice([INPUT, OUTPUT, SCRATCH]) for _ in range(2)]
    source, target = ((buffer, random.randrange(chunks + 1 - count)) for buffer in buffers)
    overlap = source[0] == target[0] and source[1] != target[1]
    return step(name, source, source if overlap else target, count)


def _fuse_some(random: Random, one: DraftBlock) -> None:
    """Turn a receive and the send after it into one step, now and then."""
    for number in range(len(one.steps) - 2, -1, -1):
        takes, gives = one.steps[number : number + 2]
        alike = TRAITS[takes.opcode].receives and gives.opcode is Opcode.S and takes.count == gives.count
        if alike and random.random() < 0.6:
            name = "rcs" if takes.opcode is Opcode.R else random.choice(["rrs", "rrcs"])
            one.steps[number : number + 2] = [step(name, takes.source, takes.target, takes.count)]


def _add_waits(random: Random, blocks: list[DraftBlock]) -> None:
    for one in blocks:
        siblings = [other for other in blocks if other.rank == one.rank]
        for waiting in one.steps:
            other = random.randrange(len(siblings))
            if siblings[other] is not one and random.random() < 0.4:
                waiting.waits.append((other, random.randrange(len(siblings[other].steps))))
