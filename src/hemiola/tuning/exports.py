"""Exports: tuned windows as a folder of plans that the runtime reads, and as a CSV for NCCL's tuner plugin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from hemiola.compiler.deliver import deliver
from hemiola.compiler.options import CompileOptions
from hemiola.errors import FormatError
from hemiola.ir.plan import Plan
from hemiola.ir.targets import TARGETS
from hemiola.tuning.candidates import Workshop
from hemiola.tuning.tune import STOCK, Row, Window

CSV_NAME = "nccl_tuner.csv"
NCCL_COLLECTIVES = ("allreduce", "allgather", "reducescatter", "broadcast", "reduce")


def check_folder(folder: Path, kind: str) -> None:
    """Make a folder for plans of a collective; one that has such plans is refused."""
    _make(folder)
    old = sorted(folder.glob(f"{kind}-*.plan"))
    if old:
        raise FormatError(
            f"{folder}: it has plans for {kind} already, such as {old[0].name}; remove them, or give another folder"
        )


def write_plans(windows: Sequence[Window], workshop: Workshop, folder: Path) -> list[Path]:
    """A plan file for each window and each form of call, proven again after writing; nothing for the runtime's own choices.

    Files state sizes as the runtime compares them: by the larger of a rank's two buffers.
    """
    check_folder(folder, workshop.kind)
    written = []
    for number, window in enumerate(windows):
        candidate = window.chosen.candidate
        if candidate is None:
            continue
        for in_place in workshop.places:
            place = "inplace" if in_place else "outofplace"
            path = folder / f"{workshop.kind}-{number:02d}-{candidate.algorithm}.{place}.plan"
            plan = _within(workshop.plan(candidate, in_place=in_place), window, workshop)
            deliver(plan, path, TARGETS["plan"], slots=CompileOptions().slots)
            written.append(path)
    return written


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FormatError(f"{folder}: the folder cannot be made: {error.strerror}") from None


def _within(plan: Plan, window: Window, workshop: Workshop) -> Plan:
    factor = buffer_factor(workshop)
    # The end is the last byte before the next window, so nothing falls between two.
    return replace(
        plan, min_bytes=window.min_bytes * factor, max_bytes=window.max_bytes * factor + (factor - 1)
    )


def buffer_factor(workshop: Workshop) -> int:
    """How many times as large as its input the larger of a rank's two buffers is."""
    inputs, outputs = workshop.collective.named_chunks()
    return int(max(inputs.max(), outputs.max())) // int(inputs.max())


def nccl_csv(windows: Sequence[Window], workshop: Workshop) -> list[str]:
    """Rows ``coll,min,max,algo,proto,channels,nNodes,nRanks``: the best choice among those that NCCL has, for every size."""
    if workshop.kind not in NCCL_COLLECTIVES:
        return []
    rows = [row for window in windows for row in window.rows if row.stock is not None]
    ends = {row.num_bytes: window.max_bytes for window in windows for row in window.rows}
    factor = buffer_factor(workshop)
    lines = []
    groups = [(choice, list(group)) for choice, group in groupby(rows, key=_nccl_choice)]
    for (choice, group), after in zip(groups, [*groups[1:], None], strict=True):
        last = after[1][0].num_bytes * factor - 1 if after else ends[group[-1].num_bytes] * factor
        words = (
            workshop.kind, group[0].num_bytes * factor, last, *choice, workshop.system.num_hosts, workshop.num_ranks,
        )  # fmt: skip
        lines.append(",".join(map(str, words)))
    return lines


def write_nccl_csv(lines: Sequence[str], folder: Path) -> Path:
    """Put rows into the folder's CSV, in place of those that it has for the same collective."""
    path = folder / CSV_NAME
    kind = lines[0].partition(",")[0]
    try:
        old = path.read_text("utf-8").splitlines() if path.exists() else []
        kept = [line for line in old if line.partition(",")[0] != kind]
        path.write_text("\n".join([*kept, *lines]) + "\n", "utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}") from None
    return path


def _nccl_choice(row: Row) -> tuple[str, str, int]:
    """Algorithm, protocol and channels, as NCCL calls them."""
    assert row.stock is not None
    assert row.stock.candidate is not None
    plan = row.stock.plan
    return STOCK[row.stock.candidate.algorithm], plan.protocol.value.lower(), plan.num_channels
