"""Calls: a plan and the shape of its data, prepared for the C++ core once and run as often as needed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from hemiola import _core
from hemiola.collectives import FACTS, Buffer, CollectiveKind
from hemiola.errors import CollectiveError, LimitError
from hemiola.ir.plan import Plan
from hemiola.ir.rows import plan_view
from hemiola.runtime.communicator.numbers import CORE_OPERATORS, NUMBERS, OPERATORS
from hemiola.runtime.settings import Settings
from hemiola.units import format_bytes


@dataclass(frozen=True, slots=True)
class Shares:
    """How many shares the buffers of a rank hold; a share is the unit in which the data of a collective is counted."""

    input: int
    output: int
    window: int | None
    """In place, the offset of the input in the output, in shares; a negative one is that of the output in the input.
    None out of place."""

    @staticmethod
    def of(plan: Plan, rank: int) -> Shares:
        """The shares of one rank of a plan; in a custom collective every chunk is a share."""
        collective = plan.collective
        unit = share_chunks(plan)
        inputs, outputs = (int(sizes[rank]) // unit for sizes in collective.named_chunks())
        alias = collective.alias()
        if alias is None or alias.offset[rank] < 0:
            return Shares(inputs, outputs, None)
        offset = int(alias.offset[rank]) // unit
        return Shares(inputs, outputs, offset if alias.source == Buffer.INPUT else -offset)


def share_chunks(plan: Plan) -> int:
    """The number of chunks into which a plan cuts one share."""
    return plan.share_chunks


def take_part(plan: Plan, rank: int) -> _core.Part:
    """One rank's part of a plan, in the form that the C++ core runs."""
    alias = plan.collective.alias()
    overlaps = alias is not None and alias.offset[rank] >= 0
    return _core.Part(
        plan_view(plan),
        rank=rank,
        block_chunks=share_chunks(plan),
        alias_source=int(alias.source) if alias is not None and overlaps else -1,
        alias_offset=int(alias.offset[rank]) if alias is not None and overlaps else 0,
    )


@dataclass(frozen=True, slots=True)
class CallShape:
    """What a call consists of besides its plan; equal on all ranks, except for the lengths."""

    element: str
    op: str
    share: int
    """The number of elements of one share; 0 where every share has its own length."""
    input_lengths: tuple[int, ...] = ()
    output_lengths: tuple[int, ...] = ()
    """The number of elements of every share, for shares that differ in length."""

    @property
    def is_uneven(self) -> bool:
        """Whether every share has its own length."""
        return bool(self.input_lengths or self.output_lengths)


def make_call(
    endpoint: _core.Endpoint,
    part: _core.Part,
    plan: Plan,
    digest: bytes,
    rank: int,
    shape: CallShape,
    settings: Settings,
) -> _core.Call:
    """A call that can run on arrays of its sizes."""
    check_operator(plan, shape)
    size = NUMBERS[shape.element].storage.itemsize
    if part.max_count * size > settings.slot_bytes:
        raise LimitError(
            f"plan {plan.name} sends {part.max_count} chunks in one message, which do not fit in a slot of "
            f"{format_bytes(settings.slot_bytes)} even one element each; set HEMIOLA_SLOT_BYTES to at least "
            f"{part.max_count * size} rounded up to 64"
        )
    shares = Shares.of(plan, rank)
    if shape.is_uneven:
        input_elements, output_elements = sum(shape.input_lengths), sum(shape.output_lengths)
    else:
        input_elements, output_elements = shares.input * shape.share, shares.output * shape.share
    divided = output_elements if shape.op == "avg" and FACTS[plan.collective.kind].sums else 0
    # A rank without any data does not know how much the others have.
    everybody = all(sum(sizes) > 0 for sizes in zip(*plan.collective.named_chunks(), strict=True))
    content = (digest, shape.element, shape.op, shape.share if everybody else None, shape.is_uneven)
    words = replace(shape, input_lengths=(), output_lengths=()) if shape.is_uneven else shape
    return _core.Call(
        endpoint,
        part,
        _core.CallShape(
            type=NUMBERS[shape.element].type,
            op=CORE_OPERATORS[shape.op],
            elements=shape.share,
            divide_elements=divided,
            message_bytes=settings.tile_bytes or plan.message_bytes,
            content=int.from_bytes(hashlib.sha256(repr(content).encode()).digest()[:8], "little"),
            description=describe(plan, words, digest),
            input_lengths=shape.input_lengths,
            output_lengths=shape.output_lengths,
        ),
        _core.CallMemory(
            input_bytes=input_elements * size,
            output_bytes=output_elements * size,
            window=None if shares.window is None else shares.window * shape.share * size,
        ),
    )


def check_operator(plan: Plan, shape: CallShape) -> None:
    """Raise CollectiveError for an operator that is unknown or has no meaning for this collective."""
    if shape.op not in OPERATORS:
        raise CollectiveError(f"there is no operator {shape.op!r}; known are {', '.join(OPERATORS)}")
    if shape.op == "avg" and plan.collective.custom is not None:
        raise CollectiveError("avg has no meaning for a custom collective; use sum, and divide afterwards")


def describe(plan: Plan, shape: CallShape, digest: bytes) -> str:
    """A description of a call for error messages and the flight record."""
    collective = plan.collective
    size = NUMBERS[shape.element].storage.itemsize
    words = [
        f"{collective.kind} of {f'{format_bytes(shape.share * size)} a share' if shape.share else 'shares of their own length'}",
        f"{shape.element} {shape.op}" if FACTS[collective.kind].sums else shape.element,
        *(["in place"] if collective.in_place else []),
        *(
            [f"root {collective.root}"]
            if collective.kind.facts.rooted and collective.kind is not CollectiveKind.SENDRECV
            else []
        ),
        f"plan {plan.name} {digest[:4].hex()}",
    ]
    return ", ".join(words)
