"""The laws of the house: who may import whom, who may read links, that everything is used, and how files are not called."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from hemiola.cli.main import VERBS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "hemiola"

ROWS: tuple[tuple[str, ...], ...] = (
    ("errors", "units", "cache", "on_demand", "_core"),
    ("topology", "collectives"),
    ("ir",),
    ("language", "algorithms", "compiler"),
    ("simulator", "runtime"),
    ("cost",),
    ("tuning", "placement", "synthesis"),
    ("fusion", "planner", "planning"),
    ("integrations", "torch", "jax", "lab", "report"),
    ("cli", "__main__"),
)
"""From the ground up: a file imports only from its own row or a row before it."""

ROW_OF = {name: row for row, names in enumerate(ROWS) for name in names} | {"__version__": 0}
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "core", "base", "v2"}
"""Names that say nothing about what is inside."""

PUBLIC_DOOR = Path("__init__.py")
"""Relative to the package; it gives users what they need, from every row."""

READS_LINKS = {"topology", "simulator", "cost", "fusion", "planner", "lab"}
"""Who may read how fast a link is; everybody else asks `cost` what something takes."""
SPEEDS = {"bandwidth_in", "bandwidth_out", "latency"}
"""Attributes that only links, edges and what they are made of have."""
HAVE_BANDWIDTH = {"link", "edge", "fabric"}
"""Names of values whose ``bandwidth`` is that of links; the word alone is also an option and a result."""
OTHER_LATENCIES = {
    ("synthesis/costs.py", "time.latency"): "of a StepTime, which is an estimate of `cost`",
    ("synthesis/costs.py", "way[1].latency"): "of a StepTime, which is an estimate of `cost`",
}
"""File and expression of reads that look like those of links and are none, and of what they are."""

DOORS = ("hemiola", "hemiola.torch", "hemiola.jax", "hemiola.__main__", "hemiola.cli.main")
"""Where users come in, beside the verbs."""
REFERENCES = {
    "hemiola.ir.dag_text": "prints the levels above the plan; the golden files of the compiler's passes are compared in it",
}
"""Modules that nothing but a test uses, and what they are good for there."""


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


def test_only_costs_are_made_of_bandwidths_and_latencies() -> None:
    problems = [
        problem
        for path in source_files(PACKAGE)
        if path.suffix == ".py"
        for problem in link_problems(path, (PACKAGE / path).read_text("utf-8"))
    ]
    assert not problems, "\n" + "\n".join(problems)


def test_reads_that_are_none_of_links_are_still_there() -> None:
    for path, expression in OTHER_LATENCIES:
        assert expression in (PACKAGE / path).read_text("utf-8"), (path, expression)


def test_every_module_is_used() -> None:
    uses = uses_of_modules()
    starts = {*DOORS, *(f"hemiola.cli.{verb}" for verb in VERBS), *used_by(ROOT / "benchmarks", uses)}
    idle = set(uses) - reached(starts, uses) - set(REFERENCES)
    assert not idle, f"no verb, public name or benchmark uses {', '.join(sorted(idle))}"


def test_references_are_used_by_tests_and_by_nothing_else() -> None:
    uses = uses_of_modules()
    starts = {*DOORS, *(f"hemiola.cli.{verb}" for verb in VERBS), *used_by(ROOT / "benchmarks", uses)}
    assert not set(REFERENCES) & reached(starts, uses)
    assert set(REFERENCES) <= used_by(ROOT / "tests", uses)


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


def link_problems(path: Path, source: str) -> Iterator[str]:
    """One sentence for each read of a link's bandwidth or latency where costs are none of a file's business."""
    if top_level_name(path) in READS_LINKS:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and is_speed(node):
            expression = ast.unparse(node)
            if (path.as_posix(), expression) not in OTHER_LATENCIES:
                yield f"hemiola/{path}:{node.lineno}: reads {expression}; ask hemiola.cost what something takes"


def is_speed(node: ast.Attribute) -> bool:
    """Whether an attribute is how fast or how far a link is."""
    if node.attr == "bandwidth":
        owner = node.value
        name = (
            owner.attr
            if isinstance(owner, ast.Attribute)
            else owner.id
            if isinstance(owner, ast.Name)
            else ""
        )
        return name.rpartition("_")[2] in HAVE_BANDWIDTH
    return node.attr in SPEEDS


def uses_of_modules() -> dict[str, set[str]]:
    """Of every module, those that it imports or names."""
    files = {module_name(path): path for path in source_files(PACKAGE) if path.suffix == ".py"}
    return {
        name: set(used_modules(path, (PACKAGE / path).read_text("utf-8"), files))
        for name, path in files.items()
    }


def module_name(path: Path) -> str:
    parts = ("hemiola", *path.with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def used_by(folder: Path, modules: Iterable[str]) -> set[str]:
    """What the files of a folder outside the package use."""
    known = set(modules)
    return {
        name
        for path in folder.rglob("*.py")
        for name in used_modules(Path(path.name), path.read_text("utf-8"), known)
    }


def used_modules(path: Path, source: str, known: Iterable[str]) -> Iterator[str]:
    """The modules that a file imports, wherever, or names in a text: to import them later or to start them with ``-m``."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules = modules_of(path, node)
            names |= {*modules, *(f"{module}.{alias.name}" for module in modules for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names |= {node.value, f"hemiola.{node.value}"} if path == PUBLIC_DOOR else {node.value}
    return (name for name in known if name in names)


def reached(starts: Iterable[str], uses: Mapping[str, set[str]]) -> set[str]:
    """What is used from some modules on; who uses a module uses the packages around it as well."""
    found: set[str] = set()
    left = list(starts)
    while left:
        name = left.pop()
        if name in uses and name not in found:
            found.add(name)
            left += [*uses[name], name.rpartition(".")[0]]
    return found


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


@pytest.mark.parametrize(
    ("source", "expression"),
    [
        ("best = max(link.bandwidth_out for link in links)\n", "link.bandwidth_out"),
        ("least = system.levels[0].link.bandwidth_in\n", "system.levels[0].link.bandwidth_in"),
        ("late = edge.latency\n", "edge.latency"),
        ("rate = level.fabric.bandwidth\n", "level.fabric.bandwidth"),
        ("rate = slow_edge.bandwidth\n", "slow_edge.bandwidth"),
    ],
)
def test_a_read_of_a_link_is_named(source: str, expression: str) -> None:
    (problem,) = link_problems(Path("tuning/tune.py"), source)
    assert problem.startswith(f"hemiola/tuning/tune.py:1: reads {expression};")
    assert not list(link_problems(Path("cost/price.py"), source))


def test_other_bandwidths_are_nobodys_links() -> None:
    assert not list(link_problems(Path("cli/systems.py"), "print(options.bandwidth, latency)\n"))


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("cli/run.py", "from hemiola.ir import plan\n"),
        ("cli/run.py", "import hemiola.ir.plan\n"),
        ("cli/run.py", "def late():\n    from hemiola.ir.plan import Plan\n"),
        ("cli/run.py", "START = ['-m', 'hemiola.ir.plan']\n"),
        ("ir/verify.py", "from .plan import Plan\n"),
        ("__init__.py", "_TABLE = (('Plan Protocol', 'ir.plan'),)\n"),
    ],
)
def test_a_use_of_a_module_is_seen(path: str, source: str) -> None:
    assert "hemiola.ir.plan" in used_modules(Path(path), source, ["hemiola.ir.plan", "hemiola.ir.text"])
    assert "hemiola.ir.text" not in used_modules(Path(path), source, ["hemiola.ir.plan", "hemiola.ir.text"])


def test_who_is_used_by_the_unused_alone_is_unused() -> None:
    uses = {"a": {"a.b"}, "a.b": {"c.d"}, "c": set[str](), "c.d": set[str](), "e": {"f"}, "f": {"e"}}
    assert reached(["a"], uses) == {"a", "a.b", "c", "c.d"}
