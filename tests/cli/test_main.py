"""The command itself: help, version, exit codes, and what it costs to ask for help."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.invoke import invoke, refusal, succeed
from hemiola import __version__
from hemiola.cli.main import VERBS

SCRIPT = Path(sys.executable).with_name("hemiola")


def run(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The installed command in a process of its own."""
    return subprocess.run([SCRIPT, *map(str, words)], capture_output=True, text=True, cwd=cwd, check=False)


def test_the_help_lists_every_verb() -> None:
    for text in (succeed("--help"), succeed("-h"), succeed()):
        assert all(f"  {verb}" in text and line in text for verb, line in VERBS.items())


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_and_json(verb: str) -> None:
    text = succeed(verb, "--help")
    assert f"hemiola {verb}" in text or f"main {verb}" in text
    assert "--json" in text


def modules_after(*words: str) -> set[str]:
    """What a fresh interpreter has imported when a command has ended."""
    code = f"import sys; from hemiola.cli.main import main\ntry: main({list(words)!r})\nexcept SystemExit: pass\n"
    code += "print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_the_help_loads_no_verb() -> None:
    loaded = modules_after("--help")
    assert {name for name in loaded if name.startswith("hemiola.cli.")} == {"hemiola.cli.main"}
    assert not {"numpy", "scipy", "yaml", "rich", "torch", "jax"} & loaded


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_loads_no_package_that_takes_long(verb: str) -> None:
    assert not {"scipy", "rich", "torch", "jax", "urllib.request"} & modules_after(verb, "--help")


def test_numpy_is_loaded_without_changing_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    succeed("show", "--help")
    assert "OPENBLAS_NUM_THREADS" not in os.environ


def test_the_package_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hemiola", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"hemiola {__version__}\n"


def test_the_version_is_the_packages() -> None:
    assert succeed("--version") == f"hemiola {__version__}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["polish"], "No such command 'polish'; see main --help"),
        (["--polish"], "No such option '--polish'; see main --help"),
        (["show"], "Missing argument 'PLAN'; see main show --help"),
        (["verify", "a", "b"], "Got unexpected extra argument (b); see main verify --help"),
    ],
)
def test_a_wrong_command_line_is_one_message(words: list[str], message: str) -> None:
    assert refusal(*words) == message


def test_missing_memory_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("hemiola.cli.show.read_plan", fail)
    assert (
        refusal("show", "x") == "this needs more memory than there is; use fewer ranks, chunks or instances"
    )


def test_an_error_of_the_system_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "secret.plan")

    monkeypatch.setattr("hemiola.cli.show.read_plan", fail)
    assert refusal("show", "x") == "secret.plan: Permission denied"


def test_an_interruption_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hemiola.cli.show.read_plan", fail)
    result = invoke("show", "x")
    assert (result.exit_code, result.stderr.strip()) == (130, "hemiola: interrupted")


def test_the_console_script_keeps_stdout_for_the_answer(tmp_path: Path) -> None:
    made = run("compile", "allreduce_ring", "-o", "ring.plan", "--json", "--", "--ranks=4", cwd=tmp_path)
    assert (made.returncode, made.stderr) == (0, "")
    assert json.loads(made.stdout)["plans"][0]["file"] == "ring.plan"
    proven = run("verify", "ring.plan", "--json", cwd=tmp_path)
    assert (proven.returncode, proven.stderr) == (0, "")
    assert json.loads(proven.stdout)["ok"] is True
    refused = run("verify", "missing.plan", "--json", cwd=tmp_path)
    assert refused.returncode == 2
    reason = "missing.plan: cannot be read: No such file or directory"
    assert json.loads(refused.stdout) == {"error": reason, "exit_code": 2}
    assert refused.stderr == "hemiola: missing.plan: cannot be read: No such file or directory\n"


def test_a_closed_pipe_is_no_traceback(tmp_path: Path) -> None:
    succeed("compile", "allreduce_allpairs", "-o", tmp_path / "a.plan", "--ranks", 16)
    done = subprocess.run(
        f"{SCRIPT} show {tmp_path / 'a.plan'} | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "plan allreduce_allpairs\n"
    assert done.stderr == ""
