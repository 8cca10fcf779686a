"""``start_program``: an empty program for an algorithm of the library, with its collective, instances and protocol."""

from __future__ import annotations

from hemiola.collectives import Collective
from hemiola.errors import ProgramError
from hemiola.ir.plan import Protocol
from hemiola.language.program import INPUT, OUTPUT, Program


def start_program(name: str, collective: Collective, *, instances: int, protocol: str) -> Program:
    """A program that has recorded nothing yet."""
    return Program(name, collective, instances=instances, protocol=find_protocol(protocol))


def find_protocol(name: str) -> Protocol:
    """The protocol of that name, whatever its case."""
    for protocol in Protocol:
        if protocol.value.lower() == name.lower():
            return protocol
    known = ", ".join(protocol.value for protocol in Protocol)
    raise ProgramError(f"protocol is one of {known}, but is '{name}'")


def copy_if_alone(p: Program) -> bool:
    """Whether there is only one rank; its output is its input, so nothing else remains to be done."""
    if p.num_ranks > 1:
        return False
    if not p.collective.in_place:
        p.chunk(0, INPUT, 0, p.collective.input_chunks(0)).copy(0, OUTPUT, 0)
    return True
