"""The public door: short, in flow order, quick to import, and everything behind it exists."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import hemiola

DOOR = Path(hemiola.__file__)
TREE = ast.parse(DOOR.read_text("utf-8"))
FLOW = ["_core", "errors", "collectives", "topology", "language", "compiler", "ir", "planning", "runtime"]
TABLE = [(name, module) for names, module in hemiola._TABLE for name in names.split()]


def typed_imports() -> list[ast.ImportFrom]:
    """What type checkers see."""
    (block,) = [
        node for node in TREE.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return [node for node in block.body if isinstance(node, ast.ImportFrom)]


def test_the_door_is_short() -> None:
    assert len(DOOR.read_text("utf-8").splitlines()) <= 60


def test_every_name_is_offered_on_purpose() -> None:
    for node in ast.walk(TREE):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hemiola"):
            for alias in node.names:
                assert alias.asname == alias.name or (alias.asname or "").startswith("_")


def test_type_checkers_see_the_table() -> None:
    seen = {(alias.name, node.module) for node in typed_imports() for alias in node.names}
    assert seen == {(name, f"hemiola.{module}") for name, module in TABLE}
    assert len(TABLE) == len(seen)


@pytest.mark.parametrize(
    "modules", [[node.module or "" for node in typed_imports()], [f"hemiola.{module}" for _, module in TABLE]]
)
def test_the_order_is_that_of_the_flow(modules: list[str]) -> None:
    order = [FLOW.index(module.split(".")[1]) for module in modules]
    assert order == sorted(order)


@pytest.mark.parametrize(("name", "module"), TABLE)
def test_everything_behind_it_exists(name: str, module: str) -> None:
    assert getattr(hemiola, name) is getattr(import_module(f"hemiola.{module}"), name)
    assert name in dir(hemiola)
    assert name in vars(hemiola)["__all__"]


def test_there_is_nothing_else() -> None:
    with pytest.raises(AttributeError, match="module 'hemiola' has no attribute 'unheard_of'"):
        _ = hemiola.unheard_of  # type: ignore[attr-defined]


def test_a_user_needs_nothing_else() -> None:
    p = hemiola.Program("forth", hemiola.SendRecv(2))
    p.chunk(0).copy(1, "output", 0)
    compiled = hemiola.compile_program(p, hemiola.CompileOptions(slots=1))
    assert hemiola.verify(compiled.plan, slots=1).ok


def run_afresh(script: str) -> str:
    """What a script prints in an interpreter that has imported nothing yet."""
    return subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout


def test_importing_it_takes_no_time() -> None:
    said = run_afresh("import sys, hemiola; print(*sys.modules)")
    assert not {"numpy", "scipy", "yaml", "torch", "jax", "click", "rich"} & set(said.split())


def test_a_communicator_has_the_library_without_asking_for_it() -> None:
    said = run_afresh(
        "from hemiola.runtime.plans.plan_source import default_plans, PlanRequest\n"
        "print(default_plans().choose(PlanRequest('allreduce', 2, (0, 0), 1024, in_place=True)).plan.num_ranks)"
    )
    assert said == "2\n"
