"""Exports: tuned windows as a folder of plans that the runtime reads, and as a CSV for NCCL's tuner plugin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from hemiola.collectives import CollectiveKind
from hemiola.compiler.deliver import deliver
from hemiola.compiler.options import CompileOptions
from hemiola.errors import FormatError
from hemiola.ir.plan import Plan
from hemiola.ir.targets import TARGETS
from hemiola.tuning.tune import STOCK, TunedSize, TunedWindow, Tuning

CSV_NAME = "nccl_tuner.csv"
NCCL_COLLECTIVES = (
    CollectiveKind.ALLREDUCE,
    CollectiveKind.ALLGATHER,
    CollectiveKind.REDUCESCATTER,
    CollectiveKind.BROADCAST,
    CollectiveKind.REDUCE,
)


def check_folder(folder: Path, kind: str) -> None:
    """Make a folder for plans of a collective; one that has such plans is refused."""
    _make(folder)
    old = sorted(folder.glob(f"{kind}-*.plan"))
    if old:
        raise FormatError(
            f"{folder}: it has plans for {kind} already, such as {old[0].name}; remove them, or give another folder"
        )


def write_plans(tuning: Tuning, folder: Path) -> list[Path]:
    """A plan file for each window and each form of call, proven again after writing; nothing for the runtime's own choices."""
    kind = tuning.request.kind
    check_folder(folder, kind)
    written = []
    for number, window in enumerate(tuning.windows):
        candidate = window.chosen.candidate
        if candidate is None:
            continue
        for in_place in (False, True) if kind.facts.can_be_in_place else (False,):
            place = "inplace" if in_place else "outofplace"
            path = folder / f"{kind}-{number:02d}-{candidate.algorithm}.{place}.plan"
            plan = _within(tuning.space.proven_plan(candidate, in_place=in_place), window)
            deliver(plan, path, TARGETS["plan"], slots=CompileOptions().slots)
            written.append(path)
    return written


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FormatError(f"{folder}: the folder cannot be made: {error.strerror}") from None


def _within(plan: Plan, window: TunedWindow) -> Plan:
    return replace(plan, min_bytes=window.min_bytes, max_bytes=window.max_bytes)


def nccl_csv(tuning: Tuning) -> list[str]:
    """Rows ``coll,min,max,algo,proto,channels,nNodes,nRanks``: the best choice among those that NCCL has, for every size."""
    request, windows = tuning.request, tuning.windows
    if request.kind not in NCCL_COLLECTIVES:
        return []
    rows = [row for window in windows for row in window.sizes if row.stock is not None]
    ends = {row.num_bytes: window.max_bytes for window in windows for row in window.sizes}
    lines = []
    groups = [(choice, list(group)) for choice, group in groupby(rows, key=_nccl_choice)]
    for (choice, group), after in zip(groups, [*groups[1:], None], strict=True):
        last = after[1][0].num_bytes - 1 if after else ends[group[-1].num_bytes]
        words = (request.kind, group[0].num_bytes, last, *choice, len(set(request.hosts)), request.num_ranks)
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


def _nccl_choice(row: TunedSize) -> tuple[str, str, int]:
    """Algorithm, protocol and channels, as NCCL calls them."""
    assert row.stock is not None
    assert row.stock.candidate is not None
    plan = row.stock.plan
    return STOCK[row.stock.candidate.algorithm], plan.protocol.value.lower(), plan.num_channels
