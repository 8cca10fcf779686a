"""The laws of the house: who may import whom, and which file names are not used."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "hemiola"

ROWS: tuple[tuple[str, ...], ...] = (
    ("errors", "units", "on_demand", "_core"),
    ("topology", "collectives"),
    ("ir",),
    ("language", "algorithms", "compiler"),
    ("simulator", "runtime"),
    ("tuning", "placement", "synthesis"),
    ("fusion", "planner"),
    ("integrations", "torch", "jax", "lab", "report"),
    ("cli", "__main__"),
)
"""From the ground up: a file imports only from its own row or a row before it."""

ROW_OF = {name: row for row, names in enumerate(ROWS) for name in names} | {"__version__": 0}
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "core", "base", "v2"}
"""Names that say nothing about what is inside."""

PUBLIC_DOOR = Path("__init__.py")
"""Relative to the package; it gives users what they need, from every row."""


def test_files_import_only_from_their_row_or_a_row_above() -> None:
    problems = [
        problem
        for path in source_files(PACKAGE)
        for problem in import_problems(path, (PACKAGE / path).read_text("utf-8"))
    ]
    assert not problems, "\n" + "\n".join(problems)


def test_file_names_say_what_is_inside() -> None:
    problems = [problem for path in source_files(PACKAGE) for problem in name_problems(path)]
    assert not problems, "\n" + "\n".join(problems)


def source_files(package: Path) -> list[Path]:
    """Every Python file and stub below the package, relative to it, in a stable order."""
    files = (path for path in package.rglob("*.py*") if path.suffix in {".py", ".pyi"})
    return sorted(path.relative_to(package) for path in files)


def import_problems(path: Path, source: str) -> Iterator[str]:
    """One sentence for each import in a file that breaks the rule of the rows."""
    if path == PUBLIC_DOOR:
        return
    importer = top_level_name(path)
    if importer not in ROW_OF:
        yield f"hemiola/{path}: {importer!r} is in no row; add it to ROWS in tests/test_layers.py and to docs/flow.md"
        return
    for line, imported in imported_names(path, ast.parse(source)):
        where = f"hemiola/{path}:{line}: imports hemiola.{imported}"
        if imported not in ROW_OF:
            yield f"{where}, which is in no row; import a module of a row, not the public door"
        elif ROW_OF[imported] > ROW_OF[importer]:
            yield (
                f"{where} of row {ROW_OF[imported]}; {importer} is in row {ROW_OF[importer]} and may import only"
                f" from rows 0 to {ROW_OF[importer]}"
            )


def top_level_name(path: Path) -> str:
    """The name below `hemiola` that a file belongs to: `ir` for ir/plan.py, `units` for units.py."""
    return path.parts[0] if len(path.parts) > 1 else path.stem


def imported_names(path: Path, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and top-level name of every import from hemiola, wherever in the file it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = modules_of(path, node)
        else:
            continue
        for module in modules:
            parts = module.split(".")
            if parts[0] == "hemiola":
                yield node.lineno, parts[1] if len(parts) > 1 else "__init__"


def modules_of(path: Path, node: ast.ImportFrom) -> list[str]:
    """The full names that one from-import reaches; `from hemiola import ir` reaches hemiola.ir."""
    module = node.module or ""
    if node.level:
        package = ("hemiola", *path.parts[:-1])
        module = ".".join([*package[: len(package) - node.level + 1], *([module] if module else [])])
    if module == "hemiola":
        return [f"hemiola.{alias.name}" for alias in node.names]
    return [module]


def name_problems(path: Path) -> Iterator[str]:
    for part in (*path.parts[:-1], path.stem):
        if FORBIDDEN_NAMES & {part, *part.split("_")} and part != "_core":
            yield f"hemiola/{path}: {part!r} does not say what is inside; name the noun or the verb it holds"


@pytest.mark.parametrize(
    ("path", "source", "line", "imported"),
    [
        ("units.py", "import os\nimport hemiola.ir.plan\n", 2, "hemiola.ir"),
        ("ir/plan.py", "from hemiola.compiler import compile\n", 1, "hemiola.compiler"),
        ("ir/plan.py", "from hemiola import cli\n", 1, "hemiola.cli"),
        ("ir/formats/xml.py", "from ...simulator import replay\n", 1, "hemiola.simulator"),
        ("ir/plan.py", "from .. import runtime\n", 1, "hemiola.runtime"),
        ("ir/plan.py", "if TYPE_CHECKING:\n    from hemiola.lab import up\n", 2, "hemiola.lab"),
        ("ir/plan.py", "def late():\n    import hemiola.report\n", 2, "hemiola.report"),
        ("cli/main.py", "import hemiola.unheard_of\n", 1, "hemiola.unheard_of"),
        ("cli/main.py", "from hemiola import Plan\n", 1, "hemiola.Plan"),
    ],
)
def test_a_forbidden_import_is_named(path: str, source: str, line: int, imported: str) -> None:
    (problem,) = import_problems(Path(path), source)
    assert problem.startswith(f"hemiola/{path}:{line}: imports {imported}")


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("__init__.py", "from hemiola.cli import main\n"),
        (
            "ir/plan.py",
            "import numpy\nfrom hemiola.ir.opcodes import Opcode\nfrom hemiola.units import LARGEST\n",
        ),
        ("language/trace.py", "from hemiola.compiler import compile\n"),
        ("cli/main.py", "from hemiola import __version__, report, units\n"),
        ("ir/plan.py", "from .opcodes import Opcode\n"),
    ],
)
def test_an_allowed_import_passes(path: str, source: str) -> None:
    assert not list(import_problems(Path(path), source))


def test_a_file_in_no_row_is_named() -> None:
    (problem,) = import_problems(Path("shelf/plan.py"), "")
    assert problem.startswith("hemiola/shelf/plan.py: 'shelf' is in no row")


@pytest.mark.parametrize(
    "path", ["ir/utils.py", "common/plan.py", "ir/plan_v2.py", "runtime/base.py", "core.py"]
)
def test_an_empty_name_is_named(path: str) -> None:
    assert len(list(name_problems(Path(path)))) == 1
