"""Runs the command line in this process."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from hemiola.cli.main import main


def invoke(*words: object) -> Result:
    """What ``hemiola words...`` gives; an exception of our own making is a failure."""
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result


def succeed(*words: object) -> str:
    """The stdout of a command that ends with 0 and says nothing on stderr."""
    result = invoke(*words)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def answer(verb: str, *words: object, code: int = 0) -> dict[str, Any]:
    """The JSON of a command, which must be all of its stdout."""
    result = invoke(verb, "--json", *words)
    assert (result.exit_code, result.stderr) == (code, "")
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


def refusal(*words: object) -> str:
    """The one message of a command that ends with 2 and prints nothing on stdout."""
    result = invoke(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("hemiola: ")
    return result.stderr.removeprefix("hemiola: ").rstrip("\n")
