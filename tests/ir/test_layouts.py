"""Tables lie in memory as the core says, and those that files hold never change."""

from __future__ import annotations

import numpy as np
import pytest

from hemiola import _core
from hemiola.ir.plan import DEPENDENCY, RANK, STEP, THREADBLOCK

TABLES = (
    "Dependency",
    "Holding",
    "Instruction",
    "Operation",
    "PathPiece",
    "Promise",
    "Rank",
    "Record",
    "Step",
    "Threadblock",
    "TraceEvent",
)


def test_tables_of_files_are_what_they_always_were() -> None:
    numbers = [(name, "<u4") for name in ("input_chunks", "output_chunks", "scratch_chunks")]
    assert RANK.descr == [*numbers, ("first_threadblock", "<u4")]
    assert THREADBLOCK.descr == [
        ("rank", "<u4"), ("send_peer", "<i4"), ("recv_peer", "<i4"), ("channel", "<u4"), ("first_step", "<u4")
    ]  # fmt: skip
    assert STEP.descr == [
        *[(name, "|u1") for name in ("opcode", "src_buffer", "dst_buffer", "reserved")],
        *[(name, "<u4") for name in ("src_index", "dst_index", "count", "first_dependency", "line")],
    ]
    assert DEPENDENCY.descr == [("threadblock", "<u4"), ("step", "<u4")]


@pytest.mark.parametrize("table", TABLES)
def test_every_column_has_a_name_and_a_format_that_numpy_knows(table: str) -> None:
    columns = _core.layout(table)
    row = np.dtype(columns)
    assert row.names is not None
    assert list(row.names) == [name for name, _ in columns]
    assert row.itemsize == sum(np.dtype(form).itemsize for _, form in columns)


def test_there_is_no_other_table() -> None:
    with pytest.raises(ValueError, match="there is no table Slot"):
        _core.layout("Slot")
