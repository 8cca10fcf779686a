"""write_page: a job's plan as one HTML file that opens offline, from its job_plan.json.

The page is `page.html` with the plan inside as JSON; its script builds everything with text nodes, so that nothing in a plan is taken for HTML.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from hemiola.errors import FormatError, HemiolaError
from hemiola.placement.axes import Axis
from hemiola.placement.matrix import ParallelismMatrix
from hemiola.topology.parse.text_file import read_text_file

PAGE_NAME, JSON_NAME = "report.html", "job_plan.json"
TEMPLATE = Path(__file__).with_name("page.html")
MARK = "@PLAN@"
"""In the template, where the plan goes."""
MOST_BYTES = 1 << 28
MOST_DRAWN = 2048
"""Devices that are drawn."""
MOST_PLACEMENTS = 5


def write_page(folder: Path) -> Path:
    """Write the page of the plan in a folder, beside its JSON."""
    plan = _read(folder / JSON_NAME)
    try:
        plan["drawn_placements"] = drawn_placements(plan)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, HemiolaError):
        raise FormatError(
            f"{folder / JSON_NAME}: this is not what hemiola plan writes; plan the job again"
        ) from None
    page = folder / PAGE_NAME
    page.write_text(page_text(plan), "utf-8")
    return page


def page_text(plan: dict[str, Any]) -> str:
    """The page; `<` in a plan is escaped, so that none of it ends the script around it."""
    data = json.dumps(plan, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return TEMPLATE.read_text("utf-8").replace(MARK, data)


def drawn_placements(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Placements as the coordinate of every device on every axis: the applied one, then the ranked ones."""
    counts = tuple(int(count) for count in plan["level_counts"])
    if math.prod(counts) > MOST_DRAWN:
        return []
    applied = plan["applied"]
    sizes = list(applied["axes"].values())
    drawn = [
        {
            "name": "applied",
            "axes": applied["axes"],
            "coordinates": _coordinates(applied["permutation"], sizes),
        }
    ]
    axes = tuple(Axis(name, size) for name, size in plan["placement"]["axes"].items())
    for number, one in enumerate(plan["placement"]["placements"][:MOST_PLACEMENTS]):
        rows = tuple(tuple(map(int, row)) for row in one["matrix"])
        if tuple(math.prod(column) for column in zip(*rows, strict=True)) != counts:
            continue  # of a system with missing units, whose ranked placements are those of its regular part
        matrix = ParallelismMatrix(axes, counts, rows)
        drawn.append(
            {
                "name": f"{number + 1}. {matrix.text}",
                "seconds": one["seconds"],
                "axes": plan["placement"]["axes"],
                "coordinates": matrix.coordinates().tolist(),
            }
        )
    return drawn


def _coordinates(permutation: list[int], sizes: list[int]) -> list[list[int]]:
    """The coordinate of each device, where the permutation has the device at each coordinate, the last axis fastest."""
    found: dict[int, list[int]] = {}
    for place, device in enumerate(permutation):
        digits = []
        for size in reversed(sizes):
            place, digit = divmod(place, size)
            digits.append(digit)
        found[device] = digits[::-1]
    return [found[device] for device in sorted(found)]


def _read(path: Path) -> dict[str, Any]:
    try:
        plan = json.loads(read_text_file(str(path), MOST_BYTES))
    except (ValueError, RecursionError):
        raise FormatError(f"{path}: this is not JSON; hemiola plan JOB.yaml -o DIR writes it") from None
    if not isinstance(plan, dict) or plan.get("version") != 1:
        raise FormatError(f"{path}: expected a plan of version 1; hemiola plan JOB.yaml -o DIR writes it")
    return plan
