"""hemiola lab: what it refuses, and how it says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.invoke import refusal
from hemiola.lab import namespaces


def test_an_unknown_shape_suggests_a_known_one() -> None:
    assert "there is no shape '2x5'; did you mean 2x4?" in refusal("lab", "up", "2x5")


def test_a_file_with_a_mistake_names_the_key(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("levels: [{name: host, count: 2, link: {bandwith: 1GB/s}}]")
    assert "levels[0].link: there is no key 'bandwith'; did you mean bandwidth?" in refusal(
        "lab", "up", str(path)
    )


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "it cannot be read: No such file" in refusal("lab", "up", str(tmp_path / "none.yaml"))


@pytest.mark.parametrize("name", ["a b", "../x", "x" * 41])
def test_a_name_is_a_word(name: str) -> None:
    assert "a lab's name is up to 40 letters" in refusal("lab", "up", "2x4", "--name", name)


def test_without_the_rights_it_says_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "find_tool", lambda name: f"/bin/{name}")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "takes root: run it with sudo" in refusal("lab", "up", "2x4")


def test_a_missing_command_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "find_tool", lambda name: None if name == "tc" else f"/bin/{name}")
    assert "the lab needs the command tc; install Debian's package iproute2" in refusal("lab", "up", "2x4")


def test_a_delay_is_a_time() -> None:
    assert "expected a time such as 10us" in refusal("lab", "up", "2x4", "--delay", "2")


def test_exec_wants_a_command_and_a_lab() -> None:
    assert "Missing argument" in refusal("lab", "exec", "--name", "nobody")
    assert "there is no lab called nobody" in refusal("lab", "exec", "--name", "nobody", "--", "true")
    assert "give a name or --all, not both" in refusal("lab", "down", "nobody", "--all")
