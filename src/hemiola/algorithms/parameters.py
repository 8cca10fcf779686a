"""Parameters: the words of a command line, turned into the typed parameters of a library algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from math import prod
from typing import Any, get_type_hints

from hemiola.algorithms.algorithm import Algorithm
from hemiola.errors import ProgramError

_BOOLEANS = {"": True, "true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def split_words(words: Sequence[str]) -> dict[str, str]:
    """``["--ranks=8", "--levels", "4,2", "--in-place"]`` by name; a name without a value gets ``""``."""
    found: dict[str, str] = {}
    name: str | None = None
    for word in words:
        if word.startswith("--") and len(word) > 2:
            key, _, value = word[2:].partition("=")
            name = None if "=" in word else key
            if key in found:
                raise ProgramError(f"--{key} is given twice; give it once")
            found[key] = value
        elif name is not None:
            found[name], name = word, None
        else:
            raise ProgramError(f"'{word}' is not a parameter; write --name=value, such as --ranks=8")
    return found


def read_parameters(algorithm: Algorithm, arguments: Mapping[str, str]) -> dict[str, Any]:
    """The typed parameters of ``algorithm.build``; ``ranks`` may be left out where ``levels`` is given."""
    hints = get_type_hints(algorithm.build)
    found: dict[str, Any] = {}
    for written, text in arguments.items():
        name = written.removeprefix("--").replace("-", "_")
        if name not in algorithm.parameters:
            raise ProgramError(f"{algorithm.name} has no parameter '{written}'; {_existing(algorithm)}")
        if name in found:
            raise ProgramError(f"{algorithm.name}: {name} is given twice; give it once")
        expected, read = _READERS[hints[name]]
        try:
            found[name] = read(text)
        except (ValueError, KeyError):
            raise ProgramError(f"{algorithm.name}: {name} is {expected}, but is '{text}'") from None
    if "levels" in found and "ranks" not in found:
        found["ranks"] = prod(found["levels"])
    _check_complete(algorithm, found)
    return found


def _check_complete(algorithm: Algorithm, found: Mapping[str, Any]) -> None:
    required = [name for name, p in algorithm.parameters.items() if p.default is Parameter.empty]
    missing = [name for name in required if name not in found]
    if missing:
        raise ProgramError(f"{algorithm.name} needs {' and '.join(missing)}; {_existing(algorithm)}")


def _existing(algorithm: Algorithm) -> str:
    return "its parameters are " + ", ".join(
        f"--{name.replace('_', '-')}" + ("" if p.default is Parameter.empty else f" ({_written(p.default)})")
        for name, p in algorithm.parameters.items()
    )


def _written(default: object) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)


def _read_boolean(text: str) -> bool:
    return _BOOLEANS[text.lower()]


def _read_sizes(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in text.split(","))


_READERS: Mapping[object, tuple[str, Callable[[str], object]]] = {
    int: ("a whole number", int),
    bool: ("true or false", _read_boolean),
    str: ("a word", str),
    tuple[int, ...]: ("whole numbers with commas between them, such as 4,8", _read_sizes),
}
"""By the type of a parameter: what is expected, and how it is read."""
