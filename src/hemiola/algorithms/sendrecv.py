"""Send and receive: one rank's data goes to one other."""

from __future__ import annotations

from fractions import Fraction

from hemiola.algorithms.cost import CostCard
from hemiola.algorithms.start_program import start_program
from hemiola.collectives import SendRecv
from hemiola.language.program import INPUT, OUTPUT, Program


def sendrecv(
    *,
    ranks: int,
    source: int = 0,
    destination: int = 1,
    instances: int = 1,
    in_place: bool = False,
    protocol: str = "Simple",
) -> Program:
    """The source sends its data to the destination."""
    collective = SendRecv(ranks, source=source, destination=destination).with_place(in_place=in_place)
    p = start_program("sendrecv", collective, instances=instances, protocol=protocol)
    p.chunk(source, INPUT).copy(destination, OUTPUT, 0)
    return p


def cost(*, source: int, destination: int) -> CostCard:
    """1 step, S."""
    busy = int(source != destination)
    return CostCard(busy, Fraction(busy), Fraction(busy), Fraction(busy))
