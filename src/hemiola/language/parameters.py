"""Parameters: the words of a command line, turned into the typed parameters of a function that builds a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from math import prod
from typing import Any, get_type_hints

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


def read_parameters(build: Callable[..., object], arguments: Mapping[str, str]) -> dict[str, Any]:
    """The typed parameters of ``build``; ``ranks`` may be left out where ``levels`` is given."""
    known, readers = signature(build).parameters, parameter_readers(build)
    found: dict[str, Any] = {}
    for written, text in arguments.items():
        name = written.removeprefix("--").replace("-", "_")
        if name not in known:
            raise ProgramError(f"{build.__name__} has no parameter '{written}'; {_existing(known)}")
        if name in found:
            raise ProgramError(f"{build.__name__}: {name} is given twice; give it once")
        expected, read = readers[name]
        try:
            found[name] = read(text)
        except (ValueError, KeyError):
            raise ProgramError(f"{build.__name__}: {name} is {expected}, but is '{text}'") from None
    if "levels" in found and "ranks" in known and "ranks" not in found:
        found["ranks"] = prod(found["levels"])
    missing = [name for name, p in known.items() if p.default is Parameter.empty and name not in found]
    if missing:
        raise ProgramError(f"{build.__name__} needs {' and '.join(missing)}; {_existing(known)}")
    return found


Reader = tuple[str, Callable[[str], object]]
"""What is expected, in words, and how it is read."""


def parameter_readers(build: Callable[..., object]) -> dict[str, Reader]:
    """How each parameter is read; raises ProgramError for one that no command line can give."""
    hints = get_type_hints(build)
    readers = {}
    for name, parameter in signature(build).parameters.items():
        if parameter.kind is not Parameter.KEYWORD_ONLY or hints.get(name) not in _READERS:
            raise ProgramError(
                f"{build.__name__}: the parameter {name} must be keyword-only and typed int, float, bool, str or "
                f"tuple[int, ...], as in 'def {build.__name__}(*, {name}: int = 8) -> Program'"
            )
        readers[name] = _READERS[hints[name]]
    return readers


def written_default(default: object) -> str:
    """A default as it would be written on a command line."""
    if isinstance(default, tuple):
        return ",".join(str(one) for one in default)
    return str(default).lower() if isinstance(default, bool) else str(default)


def _existing(known: Mapping[str, Parameter]) -> str:
    names = [
        f"--{name.replace('_', '-')}"
        + ("" if p.default is Parameter.empty else f" ({written_default(p.default)})")
        for name, p in known.items()
    ]
    return f"its parameters are {', '.join(names)}" if names else "it has no parameters"


def _read_boolean(text: str) -> bool:
    return _BOOLEANS[text.lower()]


def _read_sizes(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in text.split(","))


_READERS: Mapping[object, Reader] = {
    int: ("a whole number", int),
    float: ("a number", float),
    bool: ("true or false", _read_boolean),
    str: ("a word", str),
    tuple[int, ...]: ("whole numbers with commas between them, such as 4,8", _read_sizes),
}
"""By the type of a parameter."""
