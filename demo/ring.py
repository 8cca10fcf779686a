"""A ring all-reduce: every chunk goes round once to be summed, and once more to be handed out."""

from hemiola import AllReduce, Program, program


@program
def ring(*, ranks: int = 8, instances: int = 1, in_place: bool = True) -> Program:
    p = Program("ring", AllReduce(ranks, chunks=ranks, in_place=in_place), instances=instances)
    for first in range(ranks):
        c = p.chunk(first, "input", first).copy(first, "output", first)
        for hop in range(1, ranks):
            rank = (first + hop) % ranks
            c = p.chunk(rank, "input", first).copy(rank, "output", first).reduce(c)
        for hop in range(ranks, 2 * ranks - 1):
            c = c.copy((first + hop) % ranks)
    return p
