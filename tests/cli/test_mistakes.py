"""Mistyped verbs and errors for programs."""

from __future__ import annotations

import json

from cli.invoke import invoke, refusal


def test_a_mistyped_verb_gets_the_one_that_is_meant() -> None:
    assert "did you mean simulate?" in refusal("simulte", "x")
    assert "did you mean plan?" in refusal("plna")


def test_with_json_errors_are_json_too() -> None:
    result = invoke("place", "--json", "--system", "nowhere:3", "--axes", "data=2")
    assert result.exit_code == 2
    found = json.loads(result.stdout)
    assert found["exit_code"] == 2
    assert "there is no system" in found["error"]
    assert result.stderr.count("\n") == 1
