"""Targets: the runtimes that a plan is written for, the limits of each, and which of them a plan breaks.

A runtime that does not like a file drops it and says nothing, so every limit is judged here, on what would
be written: with the ``nop`` steps that carry further dependencies, and without fused operations where the
runtime has no kernels for them (``as_written``). The numbers are those of the runtimes' own parsers; builds
whose limits differ are targets of their own:

- operations: rccl (source of October 2024) is built without kernels for rcs, rrs, rrc and rrcs, and ends the
  call with ncclInternalError; msccl and azure (msccl-executor-nccl) have all nine;
- steps of a threadblock: 64 in rccl, 256 in msccl and azure. ``nop`` steps count;
- threadblocks of a rank: 64 in rccl, 216 in msccl (two for each multiprocessor of an A100), which azure is
  held to as well because all of them must be resident at once;
- channels, and threadblocks of one channel that send, or that receive;
- ``cnt`` below 72; offsets and peers in 16 bits; a threadblock that others wait for in 8 bits, signed;
- XML nodes: the parser keeps the root, every rank, and the threadblocks and steps of the one rank that it
  runs on, and gives up when it has 4,096; nodes below one node: 1,024, unchecked by the parser;
- msccl: chunks of the input and of the output of a rank agree with ``nchunksperloop``; one place per file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hemiola.collectives import Collective
from hemiola.errors import LimitError
from hemiola.ir.form import Owners, check_form
from hemiola.ir.one_dependency import with_one_dependency
from hemiola.ir.opcodes import TRAITS, Opcode
from hemiola.ir.plan import Plan
from hemiola.ir.unfuse import PLAIN, unfuse


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest values that a runtime takes."""

    steps_per_threadblock: int
    """``nop`` steps included."""
    threadblocks_per_rank: int
    channels: int
    peers_per_channel: int = 32
    """Threadblocks of one rank that send on one channel, and as many that receive."""
    count: int = 71
    nodes: int = 4095
    """XML nodes that the parser keeps for one rank."""
    ranks: int = 1024
    chunks_per_buffer: int = 1 << 15
    awaited_threadblock: int = 127
    """The highest number of a threadblock that another may wait for."""
    name_bytes: int = 63
    """As it stands in the file."""
    equal_buffers: bool = False
    """Whether a rank's input and output must each make up a whole loop."""
    one_place: bool = False
    """Whether a file serves in-place calls or the others, but not both."""
    operations: frozenset[Opcode] = frozenset(Opcode)
    """What its kernels can do."""


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of file that plans are written to."""

    name: str
    extension: str
    collectives: Mapping[str, str]
    """What the runtime calls each kind of collective; kinds that are not there cannot be written."""
    limits: Limits | None = None
    runtime: str | None = None
    """Whose slots its plans run in; None for our own, which is asked by the number of slots."""
    takes_zero_as_end: bool = False
    """Whether ``maxBytes="0"`` means no size at all, and not that there is no end."""
    end_is_outside: bool = False
    """Whether a call of exactly ``maxBytes`` is not served."""

    @property
    def takes_fused(self) -> bool:
        """Whether steps may receive and send in one."""
        return self.limits is None or not self.limits.operations <= PLAIN


@dataclass(frozen=True, slots=True)
class BrokenLimit:
    """A limit, what was found, where, and what to turn."""

    limit: str
    allowed: str
    found: str
    where: str
    """Rank and threadblock, or "" when the whole plan is meant."""
    knob: str

    @property
    def message(self) -> str:
        """The sentence for people."""
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.limit} is {self.found}, but {self.allowed} is allowed; {self.knob}"


OPERATION = "the operation"
"""The limit that a file breaks whose steps the runtime has no kernels for."""

_SAME_NAMES = ("allreduce", "allgather", "alltoall", "broadcast", "reduce")

PLAN = Target("plan", ".plan", {})
MSCCL_XML = Target(
    "msccl-xml",
    ".xml",
    {
        **{kind: kind for kind in _SAME_NAMES},
        "reducescatter": "reduce_scatter",
        **dict.fromkeys(("custom", "alltonext", "sendrecv", "gather", "scatter"), "custom"),
    },
    Limits(
        steps_per_threadblock=256, threadblocks_per_rank=216, channels=32, equal_buffers=True, one_place=True
    ),
    runtime="msccl",
    takes_zero_as_end=True,
    end_is_outside=True,
)
RCCL_XML = Target(
    "rccl-xml",
    ".xml",
    {kind: kind for kind in (*_SAME_NAMES, "reducescatter", "gather", "scatter")},
    Limits(steps_per_threadblock=64, threadblocks_per_rank=64, channels=32, operations=PLAIN),
    runtime="rccl",
)
AZURE_XML = Target(
    "azure-xml",
    ".xml",
    RCCL_XML.collectives,
    Limits(steps_per_threadblock=256, threadblocks_per_rank=216, channels=32),
    runtime="msccl",
)

TARGETS: Mapping[str, Target] = {target.name: target for target in (PLAN, MSCCL_XML, RCCL_XML, AZURE_XML)}
"""Every target by its name on the command line."""

TARGET_OF_RUNTIME: Mapping[str, str] = {
    "nccl": MSCCL_XML.name,
    "msccl": MSCCL_XML.name,
    "rccl": RCCL_XML.name,
}
"""The file that loads into each runtime of GPUs; NCCL itself loads none, its fork MSCCL does."""


def as_written(plan: Plan, target: Target) -> Plan:
    """The plan in the form that a file of the target has; its own form must be right."""
    if target.limits is None:
        return plan
    return with_one_dependency(plan if target.takes_fused else unfuse(plan))


def check_limits(plan: Plan, target: Target) -> None:
    """Raise LimitError with every limit of the target that the plan would break when it is written."""
    check_form(plan)
    broken = broken_limits(as_written(plan, target), target)
    if broken:
        raise LimitError(f"{target.name} cannot hold this plan: " + "; ".join(one.message for one in broken))


def broken_limits(plan: Plan, target: Target) -> list[BrokenLimit]:
    """Every limit of the target that the plan breaks as it is, each at its worst place; its form must be right."""
    if target.limits is None:
        return []
    if plan.collective.kind not in target.collectives:
        known = ", ".join(target.collectives)
        knob = f"{target.name} knows {known}; write it with --target plan"
        return [BrokenLimit("the collective", "no such collective", plan.collective.kind, "", knob)]
    check_form(plan)
    written = with_one_dependency(plan)
    owners = Owners(written)
    broken = (judge(written, owners, target.limits) for judge in _JUDGES)
    return [limit for limits in broken for limit in limits]


def chunks_per_loop(collective: Collective, *, shares_of_all: bool) -> int:
    """``nchunksperloop``: the chunks that the runtime cuts a call's count into.

    The count is that of all ranks' shares for allgather, reducescatter and alltoall, and for gather and
    scatter where ``shares_of_all``; otherwise it is one rank's.
    """
    if collective.kind == "custom":
        return max(int(sizes.max()) for sizes in collective.named_chunks())
    wide = ("allgather", "reducescatter", "alltoall", *(("gather", "scatter") if shares_of_all else ()))
    return collective.chunks * (collective.num_ranks if collective.kind in wide else 1)


def name_in_xml(plan: Plan) -> str:
    """The plan's name as it stands between double quotes."""
    # Imported here because it brings urllib, http and ssl along, which nobody needs to plan.
    from xml.sax.saxutils import escape

    return escape(plan.name, {'"': "&quot;"})


def _at_worst(
    values: npt.NDArray[np.int64], allowed: int, limit: str, knob: str, where: Callable[[int], str]
) -> Iterator[BrokenLimit]:
    if len(values) and values.max() > allowed:
        row = int(values.argmax())
        yield BrokenLimit(limit, str(allowed), str(values[row]), where(row), knob)


def _rank(row: int) -> str:
    return f"rank {row}"


def _threadblock(plan: Plan) -> Callable[[int], str]:
    def where(row: int) -> str:
        rank = int(plan.threadblocks["rank"][row])
        return f"rank {rank}, threadblock {row - int(plan.ranks['first_threadblock'][rank])}"

    return where


def _judge_whole(plan: Plan, owners: Owners, limits: Limits) -> Iterator[BrokenLimit]:
    length = len(name_in_xml(plan).encode())
    if length > limits.name_bytes:
        yield BrokenLimit(
            "the name's length", str(limits.name_bytes), str(length), "", "choose a shorter name"
        )
    if not plan.name.isprintable():
        knob = "choose another name"
        yield BrokenLimit("the name", "only what can be printed", ascii(plan.name), "", knob)
    if plan.num_ranks > limits.ranks:
        yield BrokenLimit(
            "the number of ranks", str(limits.ranks), str(plan.num_ranks), "", "use fewer --ranks"
        )
    if plan.num_channels > limits.channels:
        knob = "use fewer --instances or fewer channels (ch=)"
        yield BrokenLimit("the number of channels", str(limits.channels), str(plan.num_channels), "", knob)
    if limits.one_place and plan.both_places:
        knob = "leave --both-places out and compile once for each"
        yield BrokenLimit("the number of places", "1", "2 (in place and out of place)", "", knob)


def _judge_shape(plan: Plan, owners: Owners, limits: Limits) -> Iterator[BrokenLimit]:
    steps = np.bincount(owners.rank, minlength=plan.num_ranks)
    nodes = 1 + plan.num_ranks + owners.num_threadblocks + steps
    fewer = "use fewer --instances"
    yield from _at_worst(
        owners.num_threadblocks, limits.threadblocks_per_rank, "the number of threadblocks", fewer, _rank
    )
    yield from _at_worst(nodes, limits.nodes, "the number of XML nodes", f"{fewer} or fewer chunks", _rank)
    knob = "cut the data into fewer chunks, or spread it over more channels (ch=, --instances)"
    limit = "the number of steps, nops included,"
    yield from _at_worst(owners.num_steps, limits.steps_per_threadblock, limit, knob, _threadblock(plan))
    for field, verb in (("send_peer", "send"), ("recv_peer", "receive")):
        table = plan.threadblocks[plan.threadblocks[field] >= 0]
        place = table["rank"].astype(np.int64) * plan.num_channels + table["channel"]
        limit = f"the number of threadblocks that {verb} on one channel"
        knob = "spread the peers over more channels (ch=, --instances)"
        yield from _at_worst(
            np.bincount(place), limits.peers_per_channel, limit, knob, _rank_and_channel(plan.num_channels)
        )


def _rank_and_channel(num_channels: int) -> Callable[[int], str]:
    return lambda row: f"rank {row // num_channels}, channel {row % num_channels}"


def _judge_steps(plan: Plan, owners: Owners, limits: Limits) -> Iterator[BrokenLimit]:
    def where(row: int) -> str:
        fault = owners.fault_at(row, "")
        return f"rank {fault.rank}, threadblock {fault.threadblock}, step {fault.step}"

    counts = np.where(plan.steps["opcode"] == Opcode.NOP, 0, plan.steps["count"]).astype(np.int64)
    knob = "move fewer chunks at once, or cut the data into fewer chunks"
    yield from _at_worst(counts, limits.count, "the count", knob, where)
    awaited = plan.dependencies["threadblock"].astype(np.int64)
    step = np.repeat(np.arange(len(plan.steps)), owners.num_dependencies)
    limit, knob = (
        "the number of the threadblock waited for",
        "use fewer --instances, so that fewer threadblocks exist",
    )
    yield from _at_worst(awaited, limits.awaited_threadblock, limit, knob, lambda row: where(int(step[row])))


def _judge_operations(plan: Plan, owners: Owners, limits: Limits) -> Iterator[BrokenLimit]:
    lacking = ~np.isin(plan.steps["opcode"], [int(code) for code in limits.operations])
    if not lacking.any():
        return
    row = int(np.argmax(lacking))
    place = owners.fault_at(row, "")
    names = [TRAITS[code].name for code in sorted(limits.operations)]
    yield BrokenLimit(
        OPERATION,
        f"only {', '.join(names)}",
        TRAITS[int(plan.steps["opcode"][row])].name,
        f"rank {place.rank}, threadblock {place.threadblock}, step {place.step}",
        "the runtime has no kernel for it and ends the call with an internal error; compile it for this target,"
        " which takes such operations apart",
    )


def _judge_buffers(plan: Plan, owners: Owners, limits: Limits) -> Iterator[BrokenLimit]:
    fewer = "cut the data into fewer chunks, or use fewer --instances"
    for name in ("input", "output", "scratch"):
        sizes = plan.ranks[f"{name}_chunks"].astype(np.int64)
        yield from _at_worst(sizes, limits.chunks_per_buffer, f"the number of {name} chunks", fewer, _rank)
    if not limits.equal_buffers:
        return
    loop = chunks_per_loop(plan.collective, shares_of_all=True)
    share = {"allgather": ("input",), "reducescatter": ("output",)}.get(plan.collective.kind, ())
    for name in ("input", "output"):
        sizes = plan.ranks[f"{name}_chunks"].astype(np.int64)
        wrong = np.flatnonzero((sizes > 0) & (sizes * (plan.num_ranks if name in share else 1) != loop))
        if len(wrong):
            yield BrokenLimit(
                f"the number of {name} chunks",
                f"only 0 or the whole loop of {loop}",
                str(sizes[wrong[0]]),
                f"rank {wrong[0]}",
                f"this runtime cannot express {plan.collective.kind} with such buffers; use --target {_others(plan)}",
            )


def _others(plan: Plan) -> str:
    return "plan or rccl-xml" if plan.collective.kind in RCCL_XML.collectives else "plan"


_JUDGES = (_judge_whole, _judge_shape, _judge_operations, _judge_steps, _judge_buffers)
