"""The law of words: one class name for one thing, every word once in the glossary, and no private word as a name."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "hemiola"
GLOSSARY = ROOT / "docs" / "glossary.md"

OTHERS_NAMES = "language/msccl"
"""Its classes have the names of MSCCLang, whose scripts it runs unchanged."""

ONE_THING_TWICE = {"ReductionExecutor"}
"""The same thing for two frameworks: users get it from hemiola.torch and from hemiola.jax under one name."""

PRIVATE_WORDS = {
    "answer": "name what was found, such as PlacementResult",
    "contestant": "backend",
    "dial": "connect",
    "found": "name what was found",
    "gate": "listener",
    "looks": "liveness",
    "meeting": "rendezvous, or an exchange over the store",
    "question": "name what is asked, such as ReductionQuery",
    "room": "payload buffer",
    "stranger": "untrusted peer",
    "team": "group of processes",
    "twos": "powers of two",
    "workshop": "CandidateSpace",
}
"""Words that no part of a module's or a class's name is, and what to write instead."""

PRIVATE_NAMES = {
    "crossings": "cut_traffic",
    "places": "say which places",
    "rest": "remainder",
    "rows_held": "chunk_ownership",
    "start": "say what is started",
    "units_of_ranks": "level_capacities",
}
"""Names that no module and no class has, and what to write instead."""


def test_a_class_name_means_one_thing() -> None:
    modules = defaultdict(set)
    for module, name in public_classes(source_files()):
        modules[name].add(module)
    double = {name: sorted(found) for name, found in modules.items() if len(found) > 1}
    assert double.keys() <= ONE_THING_TWICE, f"\n{double}"


def test_every_word_of_the_glossary_stands_once() -> None:
    words = Counter(glossary_words(GLOSSARY.read_text("utf-8")))
    assert words, "the glossary has no words; is its table still a table?"
    assert [word for word, times in words.items() if times > 1] == []


def test_no_name_is_a_private_word() -> None:
    names = {path.stem for path in source_files()} | {name for _, name in public_classes(source_files())}
    problems = {name: hint for name in names if (hint := private_word(name)) is not None}
    assert not problems, f"\n{problems}"


def source_files() -> list[Path]:
    """Every Python file of the package, relative to it, but those with the names of others."""
    paths = (path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
    return sorted(path for path in paths if not path.as_posix().startswith(OTHERS_NAMES))


def public_classes(paths: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Module and name of every class at the top of a file whose name does not begin with an underscore."""
    for path in paths:
        for node in ast.parse((PACKAGE / path).read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield path.as_posix(), node.name


def glossary_words(text: str) -> Iterator[str]:
    """The words in the first column of every table; the head of a table and the line below it are none."""
    for line in text.splitlines():
        if line.startswith("|") and not line.startswith(("| word |", "|---")):
            yield from (word.strip() for word in line.split("|")[1].split(","))


def private_word(name: str) -> str | None:
    """What to write instead of a private word in a name, or None where there is none."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    if snake in PRIVATE_NAMES:
        return PRIVATE_NAMES[snake]
    parts = {form for part in snake.split("_") for form in (part, part.removesuffix("s"))}
    return next((hint for word, hint in PRIVATE_WORDS.items() if word in parts), None)


@pytest.mark.parametrize(
    "name", ["gate", "meeting_place", "TeamOfRanks", "Questions", "start", "rows_held", "endpoint_looks"]
)
def test_a_private_word_is_found(name: str) -> None:
    assert private_word(name) is not None


@pytest.mark.parametrize("name", ["start_program", "Placement", "buffer_places", "Aggregate", "foundry"])
def test_other_names_pass(name: str) -> None:
    assert private_word(name) is None


def test_a_word_in_two_tables_is_seen_twice() -> None:
    text = "| word | meaning |\n|---|---|\n| axis, atom | one |\n\n| word | meaning |\n|---|---|\n| axis | two |\n"
    assert list(glossary_words(text)) == ["axis", "atom", "axis"]
