"""The README shows what the commands print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cli.invoke import succeed
from hemiola.algorithms.library import ALGORITHMS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def test_the_program_is_the_one_in_the_demo() -> None:
    program = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert program
    assert (ROOT / "demo" / "ring.py").read_text("utf-8").endswith(program[1])


def test_the_output_is_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").symlink_to(ROOT / "demo")
    session = re.search(r"```\n(\$ hemiola compile demo.*?)```", README, re.DOTALL)
    assert session
    command, *others = session[1].split("$ hemiola ")[1:]
    succeed(*command.split())
    for text in others:
        words, _, printed = text.partition("\n")
        assert succeed(*words.split()) == printed


def test_the_numbers_of_things_are_right() -> None:
    assert f"{len(ALGORITHMS)} algorithms" in README


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/flow.md", "docs/compiler.md"])
def test_files_that_are_named_exist(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    places = (ROOT, ROOT / "src/hemiola", (ROOT / page).parent)
    named = re.findall(r"\]\(([\w/.]+)\)|`([\w/]+/[\w/]*\.(?:py|md|cc|sh))`|`([\w/]+/)`", text)
    for name in {next(filter(None, groups)) for groups in named}:
        assert any((place / name).exists() for place in places), name
