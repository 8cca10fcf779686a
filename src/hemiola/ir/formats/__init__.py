"""Files of plans: one module a format, and the table that chooses among them.

A file is recognised by what is in it, never by its name. A new format is one module and one row here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from hemiola.collectives import Collective
from hemiola.errors import FormatError
from hemiola.ir.formats import native
from hemiola.ir.formats.files import read_regular_file, write_atomically
from hemiola.ir.formats.msccl_xml_read import parse_msccl_xml
from hemiola.ir.formats.msccl_xml_write import to_xml
from hemiola.ir.plan import Plan
from hemiola.ir.targets import PLAN, TARGETS, Target


def _xml_writer(target: Target) -> Callable[[Plan], bytes]:
    return lambda plan: to_xml(plan, target).encode()


WRITERS: Mapping[str, Callable[[Plan], bytes]] = {
    PLAN.name: native.to_bytes,
    **{name: _xml_writer(target) for name, target in TARGETS.items() if target is not PLAN},
}
"""How each target is written."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def is_native(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a native plan, and not what a runtime reads."""
    return read_regular_file(path).startswith(native.MAGIC)


def read_plan(
    path: str | os.PathLike[str], *, collective: Collective | None = None, root: int | None = None
) -> Plan:
    """The plan in a file of any known format.

    ``collective`` and ``root`` say what MSCCL XML leaves out; a native file has both and ignores them.
    Raises FormatError with one sentence for everything that is no plan.
    """
    data = read_regular_file(path)
    name = os.fspath(path)
    if data.startswith(native.MAGIC):
        return native.from_bytes(data, name)
    if data.removeprefix(_BYTE_ORDER_MARK)[:4096].lstrip().startswith(b"<"):
        return parse_msccl_xml(data, name, collective=collective, root=root)
    raise FormatError(f"{name}: this is neither a native plan file nor MSCCL XML")


def write_plan(plan: Plan, path: str | os.PathLike[str], target: Target) -> None:
    """Write the plan for a target, whole or not at all; raises LimitError when the target cannot hold it."""
    write_atomically(path, WRITERS[target.name](plan))
