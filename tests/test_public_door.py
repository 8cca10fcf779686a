"""The public door: short, in flow order, and everything behind it exists."""

from __future__ import annotations

import ast
from pathlib import Path

import hemiola

DOOR = Path(hemiola.__file__)


def imports() -> list[ast.ImportFrom]:
    return [node for node in ast.parse(DOOR.read_text("utf-8")).body if isinstance(node, ast.ImportFrom)]


def test_the_door_is_short() -> None:
    assert len(DOOR.read_text("utf-8").splitlines()) <= 40


def test_every_name_is_offered_on_purpose() -> None:
    for node in imports():
        for alias in node.names:
            assert alias.asname == alias.name or (alias.asname or "").startswith("_")


def test_the_order_is_that_of_the_flow() -> None:
    flow = ["_core", "errors", "collectives", "language", "compiler", "ir", "runtime", "tuning"]
    order = [flow.index((node.module or "").split(".")[1]) for node in imports()]
    assert order == sorted(order)


def test_a_user_needs_nothing_else() -> None:
    p = hemiola.Program("forth", hemiola.SendRecv(2))
    p.chunk(0).copy(1, "output", 0)
    compiled = hemiola.compile_program(p, hemiola.CompileOptions(slots=1))
    assert hemiola.verify(compiled.plan, slots=1).ok
