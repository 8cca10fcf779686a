"""The table of opcodes is the core's."""

from __future__ import annotations

from hemiola.ir.opcodes import TRAITS, Opcode


def test_what_a_fused_opcode_does() -> None:
    traits = TRAITS[Opcode.RRCS]
    assert traits.receives
    assert traits.reads_source
    assert not traits.reads_destination
    assert traits.writes_destination
    assert traits.sends
    assert traits.meaning == "receive, add source, store and send on"


def test_every_opcode_has_its_row() -> None:
    assert [opcode.name.lower() for opcode in Opcode] == [t.name for t in TRAITS]
    assert [t.name for t in TRAITS if t.reduces] == ["rrs", "rrc", "rrcs", "re"]
