"""The table of opcodes is one table, in Python and in C++."""

from __future__ import annotations

from hemiola import _core
from hemiola.ir.opcodes import TRAITS, Opcode


def test_python_and_cpp_agree() -> None:
    mine = [
        (t.name, t.receives, t.reads_source, t.reads_destination, t.writes_destination, t.sends)
        for t in TRAITS
    ]
    assert _core.opcodes() == mine


def test_every_opcode_has_its_row() -> None:
    assert [opcode.name.lower() for opcode in Opcode] == [t.name for t in TRAITS]
    assert [t.name for t in TRAITS if t.reduces] == ["rrs", "rrc", "rrcs", "re"]
