"""Candidate: one way to carry out a collective: an algorithm of the library or a synthesized program, with all its parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hemiola.ir.plan import Protocol
from hemiola.synthesis.program import ReductionProgram
from hemiola.units import format_bytes

Parameter = int | str | bool | tuple[int, ...]

SYNTHESIZED = "synthesized"
"""Instead of the name of an algorithm: a reduction program, carried out as its parameters say."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An algorithm or a program, its parameters, the protocol and the size of messages."""

    algorithm: str
    """Of the library, or SYNTHESIZED."""
    parameters: tuple[tuple[str, Parameter], ...]
    """Beside ranks, place and ends."""
    protocol: Protocol
    instances: int = 1
    """How many times it runs side by side, each on its part of the data and on channels of its own."""
    message_bytes: int = 0
    """Of every message; 0 as the runtime chooses."""
    program: ReductionProgram | None = None

    @property
    def family(self) -> tuple[object, ...]:
        """What is left of it without protocol, instances and size of messages."""
        return self.algorithm, self.parameters, self.program

    @property
    def way(self) -> object:
        """Of the library, a program whose steps run in turn, or one whose steps overlap."""
        return None if self.program is None else dict(self.parameters).get("overlapped")

    @property
    def compiled_as(self) -> tuple[object, ...]:
        """Candidates that are alike in this have the same tables."""
        return self.algorithm, self.parameters, self.program, self.instances

    def with_(
        self,
        *,
        instances: int | None = None,
        message_bytes: int | None = None,
        protocol: Protocol | None = None,
    ) -> Candidate:
        """The same with something else."""
        return replace(
            self,
            instances=self.instances if instances is None else instances,
            message_bytes=self.message_bytes if message_bytes is None else message_bytes,
            protocol=protocol or self.protocol,
        )

    def __str__(self) -> str:
        words = [self.algorithm if self.program is None else f"[{self.program}]"]
        for name, value in self.parameters:
            if value is False:
                continue
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            words.append(name if value is True else f"{name}={text}")
        if self.instances > 1:
            words.append(f"instances={self.instances}")
        if self.message_bytes:
            words.append(f"messages={format_bytes(self.message_bytes)}")
        return " ".join(words)
