"""A plan as text for people: a head, and a line per step under its threadblock and rank.

    rank 0: input 4, output 0, scratch 0
      tb 0  channel 0  recv 3  send 1
          0 s     input[0] -> send
          1 rrcs  input[3] + msg -> input[3], send  after tb1.2

A name with a count reads ``input[4:8]``, which are chunks 4 to 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hemiola.collectives import Buffer
from hemiola.ir.opcodes import TRAITS, OpcodeTraits
from hemiola.ir.plan import NO_PEER, Plan
from hemiola.units import format_bytes

_BUFFER_NAMES = [buffer.name.lower() for buffer in Buffer]


def plan_text(plan: Plan, ranks: Iterable[int] | None = None) -> str:
    """The plan, or the given ranks of it, as lines; the plan's form must be right."""
    chosen = range(plan.num_ranks) if ranks is None else ranks
    lines = [*_head(plan), *(line for rank in chosen for line in _rank_lines(plan, rank))]
    return "\n".join(lines) + "\n"


def _head(plan: Plan) -> Iterator[str]:
    c = plan.collective
    place = "in place and out of place" if plan.both_places else "in place" if c.in_place else "out of place"
    yield f"plan {plan.name}"
    yield f"  collective {c.kind}, {c.num_ranks} ranks, chunks {c.chunks}, {place}{_ends(plan)}"
    yield f"  protocol {plan.protocol.value}, {_sizes(plan)}"
    yield (
        f"  {plan.num_channels} channel{'' if plan.num_channels == 1 else 's'}, {len(plan.threadblocks)} threadblocks, {plan.num_steps} steps, "
        f"{len(plan.dependencies)} dependencies"
    )


def _ends(plan: Plan) -> str:
    c = plan.collective
    if c.kind == "sendrecv":
        return f", from {c.root} to {c.peer}"
    return f", root {c.root}" if c.kind in ("broadcast", "reduce", "gather", "scatter") else ""


def _sizes(plan: Plan) -> str:
    low, high = format_bytes(plan.min_bytes), format_bytes(plan.max_bytes)
    if plan.max_bytes:
        return f"for {low} to {high}"
    return f"for {low} and more" if plan.min_bytes else "for all sizes"


def _rank_lines(plan: Plan, rank: int) -> Iterator[str]:
    sizes = ", ".join(f"{name} {plan.ranks[f'{name}_chunks'][rank]}" for name in _BUFFER_NAMES)
    yield f"rank {rank}: {sizes}"
    for number, row in enumerate(plan.threadblocks_of(rank)):
        block = plan.threadblocks[row]
        peers = "".join(
            f"  {word} {block[field]}"
            for word, field in (("recv", "recv_peer"), ("send", "send_peer"))
            if block[field] != NO_PEER
        )
        yield f"  tb {number}  channel {block['channel']}{peers}"
        for index, step in enumerate(plan.steps_of(row)):
            yield _step_line(plan, index, step)


def _step_line(plan: Plan, index: int, row: int) -> str:
    step = plan.steps[row]
    traits = TRAITS[step["opcode"]]
    count = int(step["count"])
    source = _chunks(int(step["src_buffer"]), int(step["src_index"]), count)
    destination = _chunks(int(step["dst_buffer"]), int(step["dst_index"]), count)
    waits = [plan.dependencies[k] for k in plan.dependencies_of(row)]
    after = "  after " + ", ".join(f"tb{d['threadblock']}.{d['step']}" for d in waits) if waits else ""
    line = plan.line_of(row)
    origin = f"  # {line}" if line else ""
    return f"    {index:>3} {traits.name:<5} {_action(traits, source, destination)}{after}{origin}"


def _chunks(buffer: int, index: int, count: int) -> str:
    return (
        f"{_BUFFER_NAMES[buffer]}[{index}]"
        if count == 1
        else f"{_BUFFER_NAMES[buffer]}[{index}:{index + count}]"
    )


def _action(traits: OpcodeTraits, source: str, destination: str) -> str:
    """What the step computes, and where that goes."""
    operands = [
        name
        for name, used in (
            (destination, traits.reads_destination),
            (source, traits.reads_source),
            ("msg", traits.receives),
        )
        if used
    ]
    results = [
        name for name, used in ((destination, traits.writes_destination), ("send", traits.sends)) if used
    ]
    return f"{' + '.join(operands)} -> {', '.join(results)}" if operands else "wait"
