"""Writes a plan as MSCCL XML, in the dialect of msccl or of rccl and the Azure executor.

Their parsers are narrow: no XML declaration, one blank between attributes, double quotes, blanks for
indentation, and every attribute present even where the step does not use it. Three more habits of the
runtimes are minded here:

- a step carries one dependency; the others go to ``nop`` steps before it, and who is waited for says so
  with ``hasdep``;
- reductions into the same place that follow each other are run as one, at most 16 and all with the count
  of the last. ``hasdep`` ends such a chain and is harmless, so it is set wherever that would change the
  meaning;
- in place, only one of the two buffers exists, so everything is named by that one;
- rccl has no kernels for fused operations, so they are taken apart.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from hemiola.collectives import Buffer, CollectiveKind
from hemiola.ir.form import Owners, in_memory
from hemiola.ir.opcodes import TRAITS, Opcode
from hemiola.ir.plan import Plan
from hemiola.ir.targets import MSCCL_XML, Target, as_written, check_limits, chunks_per_loop, name_in_xml
from hemiola.units import LARGEST

MAX_FUSED_REDUCTIONS = 16
Sides = tuple[npt.NDArray[np.int64], ...]

_BUFFER_LETTERS = {Buffer.INPUT: "i", Buffer.OUTPUT: "o", Buffer.SCRATCH: "s"}
_NAMES = [traits.name for traits in TRAITS]


def to_xml(plan: Plan, target: Target) -> str:
    """The plan as XML for ``target``; raises LimitError when its runtime would drop the file."""
    check_limits(plan, target)
    plan = as_written(plan, target)
    owners = Owners(plan)
    lines = _step_lines(plan, owners)
    return "\n".join(_lines(plan, target, lines)) + "\n"


def _lines(plan: Plan, target: Target, step_lines: list[str]) -> Iterator[str]:
    yield _tag("algo", _algo_attributes(plan, target)) + ">"
    for rank in range(plan.num_ranks):
        row = plan.ranks[rank]
        sizes = {f"{name[0]}_chunks": row[f"{name}_chunks"] for name in ("input", "output", "scratch")}
        yield "  " + _tag("gpu", {"id": rank, **sizes}) + ">"
        for number, block in enumerate(plan.threadblocks_of(rank)):
            table = plan.threadblocks[block]
            peers = {"send": table["send_peer"], "recv": table["recv_peer"], "chan": table["channel"]}
            yield "    " + _tag("tb", {"id": number, **peers}) + ">"
            steps = plan.steps_of(block)
            yield from step_lines[steps.start : steps.stop]
            yield "    </tb>"
        yield "  </gpu>"
    yield "</algo>"


def _tag(name: str, attributes: dict[str, object]) -> str:
    return f"<{name} " + " ".join(f'{key}="{value}"' for key, value in attributes.items())


def _algo_attributes(plan: Plan, target: Target) -> dict[str, object]:
    c = plan.collective
    is_msccl = target is MSCCL_XML
    root = {"root": c.root} if c.kind.facts.rooted and c.kind is not CollectiveKind.SENDRECV else {}
    return {
        "name": name_in_xml(plan),
        "proto": plan.protocol.value,
        "nchannels": max(1, plan.num_channels),
        "nchunksperloop": chunks_per_loop(c, shares_of_all=is_msccl),
        "ngpus": plan.num_ranks,
        "coll": target.collectives[c.kind],
        "inplace": int(c.in_place or plan.both_places),
        "outofplace": int(not c.in_place or plan.both_places),
        "minBytes": plan.min_bytes,
        "maxBytes": LARGEST if target.takes_zero_as_end and plan.max_bytes == 0 else plan.max_bytes,
        **root,
    }


def _step_lines(plan: Plan, owners: Owners) -> list[str]:
    """The line of every step, in the order of the table."""
    sides = _sides(plan, owners)
    depends = owners.num_dependencies > 0
    depid, deps = np.full(len(plan.steps), -1), np.full(len(plan.steps), -1)
    depid[depends], deps[depends] = plan.dependencies["threadblock"], plan.dependencies["step"]
    hasdep = _signals(plan, owners) | _chain_ends(plan, owners, sides)
    columns = (
        owners.step_in_threadblock(), plan.steps["opcode"], *sides, plan.steps["count"], depid, deps,
        hasdep.astype(int),
    )  # fmt: skip
    letters = [_BUFFER_LETTERS[buffer] for buffer in Buffer]
    return [
        f'      <step s="{s}" type="{_NAMES[code]}" srcbuf="{letters[src]}" srcoff="{src_at}" '
        f'dstbuf="{letters[dst]}" dstoff="{dst_at}" cnt="{count}" depid="{block}" deps="{step}" hasdep="{flag}"/>'
        for s, code, src, src_at, dst, dst_at, count, block, step, flag in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def _sides(plan: Plan, owners: Owners) -> Sides:
    """Source buffer and index, destination buffer and index of every step; -1 where a nop has none."""
    rows = np.arange(len(plan.steps))
    if plan.both_places:
        src = plan.steps["src_buffer"], plan.steps["src_index"].astype(np.int64)
        dst = plan.steps["dst_buffer"], plan.steps["dst_index"].astype(np.int64)
    else:
        src, dst = (in_memory(plan, owners.rank, rows, side) for side in ("src", "dst"))
    nop = plan.steps["opcode"] == Opcode.NOP
    return src[0], np.where(nop, -1, src[1]), dst[0], np.where(nop, -1, dst[1])


def _signals(plan: Plan, owners: Owners) -> npt.NDArray[np.bool_]:
    """The steps that another waits for."""
    waiting = np.repeat(np.arange(len(plan.steps)), owners.num_dependencies)
    block = plan.ranks["first_threadblock"][owners.rank[waiting]] + plan.dependencies["threadblock"]
    awaited = np.zeros(len(plan.steps), bool)
    awaited[plan.threadblocks["first_step"][block] + plan.dependencies["step"]] = True
    return awaited


def _chain_ends(plan: Plan, owners: Owners, sides: Sides) -> npt.NDArray[np.bool_]:
    """Reductions after which the runtime must not go on with the same chain."""
    count = plan.steps["count"]
    src_buffer, src_index, dst_buffer, dst_index = sides
    reduces = plan.steps["opcode"] == Opcode.RE
    chained = reduces[1:] & reduces[:-1]
    for column in (owners.threadblock, src_buffer, dst_buffer, dst_index):
        chained &= column[1:] == column[:-1]
    reads_itself = (src_buffer == dst_buffer) & (src_index == dst_index)
    chained = np.append(chained, np.zeros(min(1, len(reduces)), bool))
    ends = np.zeros(len(reduces), bool)
    ends[:-1] = chained[:-1] & ((count[1:] != count[:-1]) | reads_itself[1:])
    length = 0
    for row in np.flatnonzero(chained & ~ends).tolist():
        length = length + 1 if row and chained[row - 1] and not ends[row - 1] else 1
        ends[row] = length == MAX_FUSED_REDUCTIONS
    return ends
