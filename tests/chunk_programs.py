"""Random chunk programs that promise exactly what they do, so that each of them is correct."""

from __future__ import annotations

from contextlib import nullcontext

from hypothesis import strategies as st

from hemiola.collectives import Collective, Custom
from hemiola.errors import ProgramError
from hemiola.language.program import Program

BUFFERS = ("input", "output", "scratch", "other")


@st.composite
def chunk_programs(draw: st.DrawFn, max_operations: int = 24) -> Program:
    """Few ranks and chunks, every verb, channels, instances and parallel fragments."""
    num_ranks, chunks = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    in_place = draw(st.booleans())
    sizes = [chunks] * num_ranks
    collective = Custom(input_chunks=sizes, output_chunks=sizes, promises={}, in_place=in_place)
    program = Program("random", collective, instances=draw(st.sampled_from([1, 1, 2, 3])))
    for _ in range(draw(st.integers(1, max_operations))):
        fragment = draw(st.sampled_from([1, 1, 1, 2]))
        with program.parallelize(fragment) if fragment > 1 else nullcontext():
            _one_operation(draw, program, num_ranks, chunks)
    program.collective = promise_what_it_holds(program, chunks, in_place)
    return program


def _one_operation(draw: st.DrawFn, program: Program, num_ranks: int, chunks: int) -> None:
    """Try one operation; what the language refuses is left out."""
    rank, other = draw(st.integers(0, num_ranks - 1)), draw(st.integers(0, num_ranks - 1))
    source, target = draw(st.sampled_from(BUFFERS)), draw(st.sampled_from(BUFFERS))
    count = draw(st.integers(1, chunks))
    index, to_index = draw(st.integers(0, chunks - count)), draw(st.integers(0, chunks - count))
    channel = draw(st.sampled_from([-1, -1, 0, 1]))
    try:
        chunk = program.chunk(rank, source, index, count)
        if draw(st.booleans()):
            program.chunk(other, target, to_index, count).reduce(chunk, ch=channel)
        else:
            chunk.copy(other, target, to_index, ch=channel)
    except ProgramError:
        return


def promise_what_it_holds(program: Program, chunks: int, in_place: bool) -> Collective:
    """The collective that the program's outputs fulfil now."""
    held = {
        (rank, index): program.contributions(rank, "output", index)
        for rank in range(program.num_ranks)
        for index in range(chunks)
    }
    sizes = [chunks] * program.num_ranks
    promises = {place: origins for place, origins in held.items() if origins is not None}
    return Custom(input_chunks=sizes, output_chunks=sizes, promises=promises, in_place=in_place)
