"""SlotRule: how a GPU runtime packs the chunks of a step into messages, and how many messages a connection holds.

Read in the public sources of NCCL, RCCL and the MSCCL interpreters. A connection's buffer has eight steps. With Simple a
message takes four of them, so two are in flight; with LL and LL128 it takes one, of which flags use a part:

==========  =======  ==========  =====================  ===================  ====
runtime     protocol buffer      step, raw              payload of a message  slots
==========  =======  ==========  =====================  ===================  ====
all         Simple   4 MiB       512 KiB                2 MiB (2 slices)      2
rccl        LL       256 KiB     32 KiB                 16 KiB                8
nccl msccl  LL       512 KiB     64 KiB                 32 KiB                8
rccl        LL128    458,752     57,344 (7/8 is data)   50,176                8
nccl msccl  LL128    4,915,200   614,400 (15/16)        576,000               8
==========  =======  ==========  =====================  ===================  ====

A chunk that is longer than a message is moved in several iterations over the whole plan, a message's payload of every chunk
at a time. A shorter one travels with others of its step, as many as fit, at most 71 of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hemiola.errors import LimitError
from hemiola.ir.plan import Protocol

GPU_RUNTIMES = ("nccl", "rccl", "msccl")
"""The runtimes with a rule for every protocol."""
MOST_CHUNKS = 71
"""Chunks of a step that travel in one message, at most: the interpreters count them in a table of 72."""


@dataclass(frozen=True, slots=True)
class SlotRule:
    """How a runtime moves the steps of a plan with one protocol.

    >>> rule = slot_rule("rccl", Protocol.SIMPLE)
    >>> rule.chunks_per_message(512 << 10), rule.messages_of_step(8, 512 << 10)
    (4, 2)
    >>> rule.num_iterations(5 << 20), rule.messages_of_step(8, 5 << 20)
    (3, 8)
    """

    slots: int
    """Messages that a connection holds before its sender waits."""
    payload_bytes: int
    """Data of one message, at most."""
    slices: int = 1
    """Parts of a message that the receiver may take before the next one is there."""
    most_chunks: int = MOST_CHUNKS
    """Of one step in one message."""

    def __post_init__(self) -> None:
        for name in ("slots", "payload_bytes", "slices", "most_chunks"):
            if (value := getattr(self, name)) < 1:
                raise LimitError(f"{name} of a slot rule is at least 1, but is {value}")

    def chunks_per_message(self, chunk_bytes: float) -> int:
        """Chunks of a step that one message packs."""
        if chunk_bytes <= 0:
            return self.most_chunks
        return max(1, min(self.most_chunks, int(self.payload_bytes // chunk_bytes)))

    def messages_of_step(self, count: int, chunk_bytes: float) -> int:
        """Messages of a step of ``count`` chunks, in each iteration."""
        return -(-count // self.chunks_per_message(chunk_bytes))

    def num_iterations(self, chunk_bytes: float) -> int:
        """How often the whole plan runs; every time but the last moves a message's payload of every chunk."""
        return max(1, int(-(-chunk_bytes // self.payload_bytes)))

    def largest_chunk(self, num_packed: int) -> int:
        """The most bytes of a chunk with which a message still packs ``num_packed`` of them; for one, with which one iteration is enough."""
        if not 1 <= num_packed <= self.most_chunks:
            raise LimitError(f"a message packs 1 to {self.most_chunks} chunks, not {num_packed}")
        return self.payload_bytes // num_packed


_SIMPLE = SlotRule(slots=2, payload_bytes=2 << 20, slices=2)
_NCCL = {
    Protocol.SIMPLE: _SIMPLE,
    Protocol.LL: SlotRule(slots=8, payload_bytes=32 << 10),
    Protocol.LL128: SlotRule(slots=8, payload_bytes=576_000),
}
_RCCL = {
    Protocol.SIMPLE: _SIMPLE,
    Protocol.LL: SlotRule(slots=8, payload_bytes=16 << 10),
    Protocol.LL128: SlotRule(slots=8, payload_bytes=50_176),
}
SLOT_RULES: Mapping[tuple[str, Protocol], SlotRule] = {
    (runtime, protocol): rule
    for runtime, rules in (("nccl", _NCCL), ("msccl", _NCCL), ("rccl", _RCCL))
    for protocol, rule in rules.items()
}
"""By runtime and protocol."""


def slot_rule(runtime: str, protocol: Protocol) -> SlotRule:
    """The rule of a runtime by its name."""
    if runtime not in GPU_RUNTIMES:
        raise LimitError(f"expected one of {', '.join(GPU_RUNTIMES)} as the runtime, but found {runtime!r}")
    return SLOT_RULES[runtime, protocol]
