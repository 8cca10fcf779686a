"""The README and the page on the language show what the commands and the examples print."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.invoke import succeed
from hemiola.algorithms.library import ALGORITHMS
from hemiola.cli.main import VERBS
from test_layers import ROWS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
LANGUAGE = (ROOT / "docs" / "language.md").read_text("utf-8")
MOST_WORDS = 900
PAGES = ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]


def test_it_is_short() -> None:
    assert len(README.split()) <= MOST_WORDS


@pytest.mark.parametrize("command", ["pip install .", "make demo", "make test"])
def test_it_says_how_to_begin(command: str) -> None:
    assert re.search(rf"^{re.escape(command)}(\s|$)", README, re.MULTILINE)


def test_the_example_prints_what_it_claims(tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    claim = re.search(r"prints\n\n```\n(.*?)```", README, re.DOTALL)
    assert code is not None
    assert claim is not None
    ran = subprocess.run(
        [sys.executable, "-c", code[1]], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert ran.stdout == claim[1]
    assert "correct" in succeed("verify", tmp_path / "allreduce.plan")


def test_the_first_result_is_what_is_printed() -> None:
    row = re.search(
        r"^\| `hemiola (tune [^`]*)` \|(.*)\|$", README.partition("## Five results")[2], re.MULTILINE
    )
    assert row is not None
    printed = succeed(*row[1].split())
    for value, in_readme in (("1.158ms", "1.158 ms"), ("505.4us", "505.4 us")):
        assert value in printed
        assert in_readme in row[2]


def test_every_verb_is_named() -> None:
    assert {verb for verb in VERBS if not re.search(rf"`hemiola {verb}\b", README)} == set()


def test_there_are_five_results() -> None:
    rows = re.findall(r"^\| `.*\|$", README.partition("## Five results")[2].partition("## ")[0], re.MULTILINE)
    assert len(rows) == 5


def test_the_numbers_of_things_are_right() -> None:
    assert f"{len(ALGORITHMS)} algorithms" in README


SIMULATED = re.findall(r"^\| `hemiola (.*?)` \| simulated: (.*?) \|$", README, re.MULTILINE)


def test_there_are_simulated_results() -> None:
    assert len(SIMULATED) >= 2


@pytest.mark.parametrize(("words", "said"), SIMULATED)
def test_simulated_times_are_what_is_printed(words: str, said: str) -> None:
    times = re.findall(r"(\d+(?:\.\d+)?) (us|ms|s)\b", said)
    printed = re.findall(r"\b(\d+(?:\.\d+)?)(us|ms|s)\b", succeed(*words.split()))
    assert times
    for number, unit in times:
        digits = len(number.partition(".")[2])
        assert any(unit == other and f"{float(found):.{digits}f}" == number for found, other in printed), (
            f"{number} {unit}"
        )


@pytest.mark.parametrize("words", re.findall(r"^\| `hemiola (.*?)` \|", README, re.MULTILINE))
def test_commands_have_the_options_that_are_shown(words: str) -> None:
    verb, *rest = words.split()
    shown = set(re.findall(r"--[a-z-]+", " ".join(rest)))
    assert shown <= set(re.findall(r"--[a-z-]+", succeed(verb, "--help")))


def test_the_program_is_the_one_in_the_demo() -> None:
    program = re.search(
        r"```python\n(from hemiola import AllReduce, Program, program\n.*?)```", LANGUAGE, re.DOTALL
    )
    assert program
    assert (ROOT / "demo" / "ring.py").read_text("utf-8").endswith(program[1])


def test_the_output_is_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").symlink_to(ROOT / "demo")
    session = re.search(r"```\n(\$ hemiola compile demo.*?)```", LANGUAGE, re.DOTALL)
    assert session
    command, *others = session[1].split("$ hemiola ")[1:]
    succeed(*command.split())
    for text in others:
        words, _, printed = text.partition("\n")
        assert succeed(*words.split()) == printed


def test_every_document_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    linked = set(re.findall(r"\]\(([\w/.]+)\)", index))
    there = {
        path.relative_to(ROOT / "docs").as_posix()
        for path in (ROOT / "docs").rglob("*")
        if path.suffix in {".md", ".py"}
    }
    assert linked == there - {"index.md"}


def test_the_rows_of_folders_are_those_that_are_checked() -> None:
    flow = (ROOT / "docs" / "flow.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d) \| ((?:`\w+` ?)+)\|$", flow, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(len(ROWS)))
    assert [tuple(re.findall(r"\w+", names)) for _, names in rows] == list(ROWS)


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_exist(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    package = ROOT / "src/hemiola"
    places = (ROOT, package, package / Path(page).stem, (ROOT / page).parent)
    named = re.findall(r"\]\(([\w/.]+)\)|`([\w/]+/[\w/]*\.(?:py|md|cc|h|def|sh))`|`([\w/]+/)`", text)
    for name in {next(filter(None, groups)) for groups in named}:
        assert any((place / name).exists() for place in places), name
