"""The native meaning of a script's own collective, from what its check looked at."""

from __future__ import annotations

from collections.abc import Iterable

from hemiola import collectives as native
from hemiola.errors import PostconditionError
from hemiola.language.msccl.contents import Contents, Place
from hemiola.language.program import INPUT, OUTPUT


def promised_collective(contents: Contents, looked_at: Iterable[Place]) -> native.Collective:
    """The collective that promises what the chunks that a passed check looked at hold now.

    The verdict of the check depends on nothing else, so a plan that keeps these promises passes it, too.
    Results may lie in the inputs, when the outputs have none: then the collective is in place.
    """
    known = contents.memory.native
    held = {place: parts for place in looked_at if (parts := contents.origins(place))}
    results = _in_buffer(held, INPUT if known.in_place else OUTPUT)
    moved = {place: parts for place, parts in held.items() if parts != [(place[0], place[2])]}
    changed = _in_buffer(moved, INPUT)
    if not results and changed:
        sizes = _sizes(known)[0]
        return _custom(sizes, sizes, _in_buffer(held, INPUT), in_place=True)
    _refuse_unprovable(contents, moved, known)
    if not results:
        raise PostconditionError(
            f"{contents.program.name} leaves nothing in the output chunks that its check looks at, so there is "
            "nothing to prove; write the outputs, or give the collective a check that looks at the results"
        )
    return _custom(*_sizes(known), results, in_place=known.in_place)


Promises = dict[tuple[int, int], list[tuple[int, int]]]


def _in_buffer(held: dict[Place, list[tuple[int, int]]], buffer: str) -> Promises:
    return {(rank, index): parts for (rank, name, index), parts in held.items() if name == buffer}


def _sizes(known: native.Collective) -> tuple[list[int], list[int]]:
    inputs, outputs = known.named_chunks()
    return inputs.tolist(), outputs.tolist()


def _custom(
    inputs: list[int], outputs: list[int], promises: Promises, *, in_place: bool
) -> native.Collective:
    return native.Custom(input_chunks=inputs, output_chunks=outputs, promises=promises, in_place=in_place)


def _refuse_unprovable(
    contents: Contents, moved: dict[Place, list[tuple[int, int]]], known: native.Collective
) -> None:
    results = {INPUT} if known.in_place else {OUTPUT}
    for rank, buffer, index in sorted(moved):
        if buffer not in results:
            raise PostconditionError(
                f"the check of {contents.program.name} looks at {buffer}[{index}] of rank {rank}, where the program "
                "leaves something new, but only outputs are results; in place, give Buffer.input and Buffer.output "
                "the same list in init_buffers"
            )
