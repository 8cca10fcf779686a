"""Scripts of users: which functions are entries, how their parameters are read, and what goes wrong in them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hemiola.errors import HemiolaError, ProgramError, ScriptError, StaleReferenceError
from hemiola.language.entry import load_entry, load_program, program
from hemiola.language.parameters import read_parameters
from hemiola.language.program import Program

HEAD = "from hemiola import Program, SendRecv, program\n"
SEND = """
@program
def send(*, ranks: int = 2, name: str = "send", in_place: bool = False) -> Program:
    p = Program(name, SendRecv(ranks))
    p.chunk(0).copy(1, "output", 0)
    return p
"""


def script(folder: Path, text: str) -> Path:
    path = folder / "script.py"
    path.write_text(HEAD + text)
    return path


def test_the_only_entry_is_run(tmp_path: Path) -> None:
    p = load_program(script(tmp_path, SEND), ["--ranks=3", "--name", "mine"])
    assert (p.name, p.num_ranks) == ("mine", 3)
    assert p.lines == (f"{tmp_path / 'script.py'}:6",)


def test_an_entry_knows_whether_it_has_both_places(tmp_path: Path) -> None:
    assert load_entry(script(tmp_path, SEND)).has_places
    assert not load_entry(script(tmp_path, SEND.replace(", in_place: bool = False", ""))).has_places


def test_imported_and_unmarked_functions_are_no_entries(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text(HEAD + SEND.replace("def send", "def beside"))
    path = script(tmp_path, f"from beside import beside\n{SEND}\ndef other() -> None: ...\n")
    assert load_entry(path).build.__name__ == "send"
    assert str(tmp_path) not in sys.path


def test_what_is_done_as_main_is_left_out(tmp_path: Path) -> None:
    load_entry(script(tmp_path, SEND + "if __name__ == '__main__':\n    raise ValueError\n"))


def test_output_goes_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load_program(
        script(tmp_path, "print('loading')\n" + SEND.replace("    p =", "    print('running'); p ="))
    )
    assert capsys.readouterr() == ("", "loading\nrunning\n")


@pytest.mark.parametrize(
    ("text", "args", "error", "message"),
    [
        ("", [], ScriptError, "script.py: no function is marked as a program; write @program"),
        ("def f(:\n", [], ScriptError, "script.py:2: invalid syntax; this is not valid Python"),
        ("import polish\n", [], ScriptError, "script.py:2: the script fails with ModuleNotFoundError"),
        ("assert 1 > 2\n", [], ScriptError, "script.py:2: the script fails with AssertionError"),
        ("exit(3)\n", [], ScriptError, "script.py:2: the script exits with 3"),
        (SEND, ["--colour=red"], ProgramError, "send has no parameter 'colour'; its parameters are --ranks (2)"),
        (SEND, ["--ranks=x"], ProgramError, "send: ranks is a whole number, but is 'x'"),
        (SEND.replace("return p", "return 3"), [], ScriptError, "send must return the Program that it recorded, but"),
        (
            SEND.replace("return p", "c = p.chunk(1, 'output', 0)\n    p.chunk(0).copy(1, 'output', 0)\n    c.copy(0, 'x')"),
            [],
            StaleReferenceError,
            "script.py:9: output[0] of rank 1 was overwritten",
        ),
        (
            "@program\ndef f(ranks: int) -> Program: ...\n",
            [],
            ProgramError,
            "script.py:2: f: the parameter ranks must be keyword-only and typed int",
        ),
        ("@program\ndef f(*, ranks: list) -> Program: ...\n", [], ProgramError, "must be keyword-only and typed int"),
        ("@program\ndef f(*, ranks: 'nope') -> Program: ...\n", [], ProgramError, "types cannot be read"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line(
    tmp_path: Path, text: str, args: list[str], error: type[HemiolaError], message: str
) -> None:
    with pytest.raises(error) as caught:
        load_program(script(tmp_path, text), args)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_script_is_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.py"):
        with pytest.raises(ScriptError, match="there is no such script"):
            load_program(path)


def test_parameters_have_their_types() -> None:
    def build(
        *, ranks: int, levels: tuple[int, ...] = (2, 2), share: float = 0.5, fast: bool = False
    ) -> Program:
        raise NotImplementedError

    assert program(build) is build
    words = {"levels": "3,4", "share": "0.25", "fast": ""}
    assert read_parameters(build, words) == {"levels": (3, 4), "share": 0.25, "fast": True, "ranks": 12}
    with pytest.raises(ProgramError, match="build needs ranks; its parameters are --ranks, --levels"):
        read_parameters(build, {})
