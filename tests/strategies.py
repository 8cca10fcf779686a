"""Hypothesis strategies, a section per value."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from hemiola.collectives import FACTS, KINDS, Buffer, Collective, Custom
from hemiola.ir.opcodes import TRAITS, Opcode
from hemiola.ir.plan import DEPENDENCY, NO_PEER, RANK, STEP, THREADBLOCK, Plan, Protocol

# Plans: well-formed, but they need not achieve anything.


@st.composite
def collectives(draw: st.DrawFn) -> Collective:
    """Any collective of few ranks and chunks."""
    num_ranks, chunks = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    kind = draw(st.sampled_from(sorted(KINDS)))
    in_place = FACTS[kind].can_be_in_place and draw(st.booleans())
    if kind == "custom":
        sizes = draw(st.lists(st.integers(1, 3), min_size=num_ranks, max_size=num_ranks))
        promises = {(rank, 0): [(0, 0), *([(rank, 0)] if rank else [])] for rank in range(num_ranks)}
        return Custom(input_chunks=sizes, output_chunks=sizes, promises=promises, in_place=in_place)
    root, peer = draw(st.integers(0, num_ranks - 1)), draw(st.integers(0, num_ranks - 1))
    return Collective(kind, num_ranks, chunks, in_place, root, peer)


@st.composite
def plans(draw: st.DrawFn, *, nops: bool = True) -> Plan:
    """A well-formed plan: whoever waits, waits for an earlier step, or an equal one of an earlier threadblock."""
    collective = draw(collectives())
    stored = [sizes.tolist() for sizes in collective.stored_chunks()]
    scratch = draw(st.lists(st.integers(0, 3), min_size=collective.num_ranks, max_size=collective.num_ranks))
    ranks: list[tuple[int, ...]] = []
    blocks: list[tuple[int, ...]] = []
    steps: list[tuple[int, ...]] = []
    waits: list[tuple[int, int]] = []
    for rank, sizes in enumerate(zip(*stored, scratch, strict=True)):
        ranks.append((*sizes, len(blocks)))
        lengths = draw(st.lists(st.integers(0, 4), max_size=3))
        for number, length in enumerate(lengths):
            peers = [NO_PEER, *(r for r in range(collective.num_ranks) if r != rank)]
            send, recv = draw(st.sampled_from(peers)), draw(st.sampled_from(peers))
            blocks.append((rank, send, recv, draw(st.integers(0, 2)), len(steps)))
            for step in range(length):
                row = _step(draw, sizes, send != NO_PEER, recv != NO_PEER, nops)
                steps.append((*row, len(waits), draw(st.integers(0, 2))))
                earlier = [
                    (b, s)
                    for b, n in enumerate(lengths)
                    for s in range(n)
                    if s < step or (s == step and b < number)
                ]
                waits.extend(draw(st.lists(st.sampled_from(earlier), max_size=3)) if earlier else [])
    return Plan(
        name=draw(st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), max_size=20)),
        collective=collective,
        protocol=draw(st.sampled_from(list(Protocol))),
        ranks=np.array(ranks, RANK),
        threadblocks=np.array(blocks, THREADBLOCK),
        steps=np.array(steps, STEP),
        dependencies=np.array(waits, DEPENDENCY),
        lines=("first.py:1", "sécond.py:22"),
        min_bytes=draw(st.integers(0, 1 << 20)),
        max_bytes=draw(st.sampled_from([0, 1 << 27, (1 << 63) - 1])),
    )


def _step(
    draw: st.DrawFn, sizes: tuple[int, ...], sends: bool, receives: bool, nops: bool
) -> tuple[int, int, int, int, int, int, int]:
    """Opcode, buffers, reserved, indices and count of a step that its threadblock can do."""
    buffers = [buffer for buffer in Buffer if sizes[buffer]]
    possible = [
        opcode
        for opcode, traits in enumerate(TRAITS)
        if (sends or not traits.sends)
        and (receives or not traits.receives)
        and (buffers or not (traits.reads_source or traits.writes_destination))
        and (nops or opcode != Opcode.NOP)
    ]
    opcode = draw(st.sampled_from(possible)) if possible else Opcode.NOP
    if opcode == Opcode.NOP:
        return (int(opcode), 0, 0, 0, 0, 0, 0)
    src, dst = draw(st.sampled_from(buffers)), draw(st.sampled_from(buffers))
    count = draw(st.integers(1, min(sizes[src], sizes[dst])))
    src_index = draw(st.integers(0, sizes[src] - count))
    dst_index = draw(st.integers(0, sizes[dst] - count))
    if src == dst and abs(src_index - dst_index) < count:
        dst_index = src_index
    traits = TRAITS[opcode]
    if not traits.reads_source:
        src, src_index = Buffer.INPUT, 0
    if not traits.writes_destination:
        dst, dst_index = Buffer.INPUT, 0
    return (int(opcode), int(src), int(dst), 0, src_index, dst_index, count)
