"""Fields: reads the keys of a YAML mapping, with errors that name the key, what it takes and an example."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

from hemiola.errors import TopologyError, UnitError
from hemiola.units import parse_bandwidth, parse_seconds

Value = TypeVar("Value")

LONGEST_TEXT = 200


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping of a YAML document, and its position there."""

    where: str
    """The position in the document, such as ``levels[0].link``; empty at its top."""
    values: Mapping[str, Any]

    @staticmethod
    def of(where: str, value: object, example: str) -> Fields:
        """The fields of a value that must be a mapping with strings as keys."""
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise TopologyError(f"{where}: expected keys and values such as {example}, found {shown(value)}")
        return Fields(where, value)

    def only(self, *known: str) -> Fields:
        """Raise TopologyError for a key that is not known, which is mostly a misspelt one."""
        for key in self.values:
            if key not in known:
                near = get_close_matches(key, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
                raise TopologyError(f"{self._prefix}there is no key {shown(key)}; {hint}")
        return self

    def read(
        self, key: str, reader: Callable[[object], Value], example: str, default: Value | None = None
    ) -> Value:
        """The value of a key, converted by ``reader``; a key without a default must be given."""
        if self.values.get(key) is None:
            if default is None:
                raise TopologyError(
                    f"{self._prefix}the key {key} is missing; give it, as in {key}: {example}"
                )
            return default
        try:
            return reader(self.values[key])
        except UnitError as error:
            raise TopologyError(f"{self.place(key)}: {error}") from None

    def bandwidth(self, key: str, default: float | None = None) -> float:
        """Bytes per second."""
        return self.read(key, parse_bandwidth, "25GB/s", default)

    def seconds(self, key: str, default: float) -> float:
        """A time in seconds."""
        return self.read(key, parse_seconds, "5us", default)

    def whole(self, key: str, least: int, most: int, default: int | None = None) -> int:
        """A whole number within limits."""
        example = min(max(least, 2), most)

        def reader(value: object) -> int:
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                raise UnitError(
                    f"expected a whole number from {least} to {most}, such as {example}, found {shown(value)}"
                )
            return value

        return self.read(key, reader, str(example), default)

    def number(self, key: str, default: float | None = None) -> float:
        """A number above zero, also written as 300e12, which YAML reads as a text."""

        def reader(value: object) -> float:
            try:
                found = float(value) if isinstance(value, str | int | float) and value is not True else -1.0
            except (ValueError, OverflowError):
                found = -1.0
            if not 0 < found < float("inf"):
                raise UnitError(f"expected a number above 0 such as 300e12, found {shown(value)}")
            return found

        return self.read(key, reader, "300e12", default)

    def text(self, key: str, example: str, default: str | None = None) -> str:
        """A short text."""

        def reader(value: object) -> str:
            value = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
            if not isinstance(value, str) or not is_short(value):
                raise UnitError(
                    f"expected a text of up to {LONGEST_TEXT} characters such as {example}, found {shown(value)}"
                )
            return value

        return self.read(key, reader, example, default)

    def flag(self, key: str) -> bool:
        """True or false; false where the key is not given."""

        def reader(value: object) -> bool:
            if not isinstance(value, bool):
                raise UnitError(f"expected true or false, found {shown(value)}")
            return value

        return self.read(key, reader, "true", False)

    def part(self, key: str, example: str) -> Fields:
        """The fields of an inner mapping; no fields where the key is not given."""
        value = self.values.get(key)
        return Fields.of(self.place(key), {} if value is None else value, example)

    def items(self, key: str, example: str) -> Iterable[tuple[str, object]]:
        """The items of a list, each with its position; none where the key is not given."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, list):
            raise TopologyError(f"{self.place(key)}: expected a list such as {example}, found {shown(value)}")
        return [(f"{self.place(key)}[{number}]", item) for number, item in enumerate(value or [])]

    @property
    def _prefix(self) -> str:
        return f"{self.where}: " if self.where else ""

    def place(self, key: str) -> str:
        """The position of the value of a key."""
        return f"{self.where}.{key}" if self.where else key


def is_short(text: str) -> bool:
    """Whether a text can be part of a line: it is not empty, not long, and all its characters are printable."""
    return bool(text.strip()) and len(text) <= LONGEST_TEXT and text.isprintable()


def shown(value: object) -> str:
    """A found value for an error message, on one line and shortened."""
    if isinstance(value, dict | list | tuple | set):
        return f"a {'mapping' if isinstance(value, dict) else 'list'} of {len(value)}"
    try:
        text = repr(value)
    except ValueError:  # an int with more digits than Python prints
        return "a number too large to print"
    return text if len(text) <= 48 else f"{text[:45]}..."
