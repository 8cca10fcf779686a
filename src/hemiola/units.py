"""Reads and prints bytes, seconds and bandwidths.

Inside Hemiola a size is an ``int`` of bytes, a time a ``float`` of seconds, a bandwidth a ``float`` of bytes
per second. People write ``64MiB``, ``10us`` and ``200Mbit/s``; YAML also gives bare numbers, which are taken
as bytes, seconds and bytes per second. Prefixes are exact: ``KB`` is 1000 bytes, ``KiB`` and ``K`` are 1024, and ``Gb/s`` are bits.

Each quantity is at most 2**63 - 1 of its base unit. Whatever cannot be read raises `UnitError`.
"""

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from hemiola.errors import UnitError

LARGEST = 2**63 - 1
"""The largest size in bytes, time in seconds and bandwidth in bytes per second."""

_DECIMAL_BYTES = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
_BINARY_BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
_BITS = {"bit": 1, "Kbit": 10**3, "Mbit": 10**6, "Gbit": 10**9, "Tbit": 10**12}

_BYTES: Mapping[str, Fraction] = {
    unit: Fraction(factor) for unit, factor in {"B": 1, **_BINARY_BYTES, **_DECIMAL_BYTES}.items()
}
_SECONDS: Mapping[str, Fraction] = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "ms": Fraction(1, 10**3),
    "s": Fraction(1),
}
_BANDWIDTHS: Mapping[str, Fraction] = {
    **{f"{unit}/s": factor for unit, factor in _BYTES.items()},
    **{f"{unit}/s": Fraction(factor, 8) for unit, factor in _BITS.items()},
}

_SPELLINGS = {
    **{unit[0]: unit for unit in _BINARY_BYTES},
    **{f"{unit[0]}b/s": f"{unit}/s" for unit in _BITS if unit != "bit"},
    "kB": "KB",
    "kB/s": "KB/s",
    "kbit/s": "Kbit/s",
    "\N{MICRO SIGN}s": "us",
    "\N{GREEK SMALL LETTER MU}s": "us",
}
"""Other ways to write a unit that the field uses, 64M as in nccl-tests and 400Gb/s as on NICs; the tables above hold one spelling each."""

_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(\D*)", re.ASCII)
_LONGEST_TEXT = 64
_SIGNIFICANT_DIGITS = 4
_SMALLEST_PRINTED = Fraction(1, 10**6)
"""Below this much of its smallest unit, a time or a bandwidth is printed as zero."""


def parse_bytes(value: object) -> int:
    """The number of bytes in a text like ``64MiB``, or in a whole number.

    A fraction of a prefixed unit is rounded to the nearest byte.

    >>> parse_bytes("64MiB"), parse_bytes("1GB"), parse_bytes("1.5KiB"), parse_bytes("4096"), parse_bytes(4096)
    (67108864, 1000000000, 1536, 4096, 4096)
    """
    expected = "a size such as 64MiB, 1GB or 4096"
    amount, unit = _parse(value, _BYTES, "B", expected)
    if unit == "B" and amount.denominator != 1:
        raise UnitError(f"expected {expected}, found {_shown(value)}: a byte cannot be divided")
    return round(amount)


def parse_seconds(value: object) -> float:
    """The seconds in a text like ``10us``, or in a number of seconds.

    >>> parse_seconds("10us"), parse_seconds("1.5ms"), parse_seconds("2s"), parse_seconds(0.25)
    (1e-05, 0.0015, 2.0, 0.25)
    """
    expected = "a time such as 10us, 1.5ms or 2s"
    if isinstance(value, str):
        _refuse_bare_number(value, expected, "ns, us, ms or s")
    return float(_parse(value, _SECONDS, "s", expected)[0])


def parse_bandwidth(value: object) -> float:
    """The bytes per second in a text like ``200Mbit/s``, or in a number of bytes per second; more than zero.

    >>> parse_bandwidth("200Mbit/s"), parse_bandwidth("270GB/s"), parse_bandwidth("8GiB/s")
    (25000000.0, 270000000000.0, 8589934592.0)
    """
    expected = "a bandwidth such as 200Mbit/s, 270GB/s or 8GiB/s"
    if isinstance(value, str):
        _refuse_bare_number(value, expected, "GB/s, GiB/s or Gbit/s")
    bandwidth = float(_parse(value, _BANDWIDTHS, "B/s", expected)[0])
    if bandwidth == 0:
        raise UnitError(f"expected {expected}, found {_shown(value)}: a bandwidth is more than zero")
    return bandwidth


def parse_size_range(value: object) -> tuple[int, ...]:
    """The powers of two from A to B in ``A..B``, both included; a single size stands for itself.

    >>> parse_size_range("4KiB..32KiB")
    (4096, 8192, 16384, 32768)
    >>> parse_size_range("1000")
    (1000,)
    """
    if not isinstance(value, str) or ".." not in value:
        return (parse_bytes(value),)
    first_text, _, last_text = value.partition("..")
    first, last = parse_bytes(first_text), parse_bytes(last_text)
    found = f"expected a range of sizes such as 4KiB..64MiB, found {_shown(value)}"
    for size in (first, last):
        if size.bit_count() != 1:
            raise UnitError(f"{found}: both ends must be powers of two, and {size} bytes is none")
    if first > last:
        raise UnitError(f"{found}: the first size is larger than the last")
    return tuple(1 << exponent for exponent in range(first.bit_length() - 1, last.bit_length()))


def format_bytes(num_bytes: int) -> str:
    """A number of bytes in the unit that needs the fewest digits, exact: `parse_bytes` gives it back.

    >>> format_bytes(67108864), format_bytes(10**9), format_bytes(1536), format_bytes(1537)
    ('64MiB', '1GB', '1.5KiB', '1537B')
    """
    if not 0 <= num_bytes <= LARGEST:
        raise UnitError(f"expected 0 to 2**63 - 1 bytes to print, found {num_bytes}")
    # At most three decimals, so that 2**20 + 1 bytes are printed as bytes and not as 1.048577MB.
    amounts = {unit: Fraction(int(num_bytes)) / factor for unit, factor in _BYTES.items()}
    texts = {unit: _plain(amount) for unit, amount in amounts.items() if 1000 % amount.denominator == 0}
    shortest = min(texts, key=lambda unit: (len(texts[unit]), len(unit)))
    return texts[shortest] + shortest


def format_seconds(seconds: float) -> str:
    """A time in the unit that suits it, with four significant digits.

    >>> format_seconds(1.25e-05), format_seconds(0.0123456), format_seconds(90), format_seconds(0)
    ('12.5us', '12.35ms', '90s', '0s')
    """
    return _format(seconds, _SECONDS, ("s", "ms", "us", "ns"), "s")


def format_bandwidth(bytes_per_second: float) -> str:
    """A bandwidth in decimal units, with four significant digits.

    >>> format_bandwidth(25e6), format_bandwidth(2.7e11), format_bandwidth(8 * 2**30)
    ('25MB/s', '270GB/s', '8.59GB/s')
    """
    return _format(bytes_per_second, _BANDWIDTHS, ("TB/s", "GB/s", "MB/s", "KB/s", "B/s"), "B/s")


def _parse(value: object, units: Mapping[str, Fraction], base: str, expected: str) -> tuple[Fraction, str]:
    """The amount in base units and the unit it was written in."""
    problem = f"expected {expected}, found {_shown(value)}"
    if isinstance(value, str):
        number, unit = _split(value, units, base, problem)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number, unit = _exact(value, problem), base
    else:
        raise UnitError(f"{problem}, which is neither a text nor a number")
    amount = number * units[unit]
    if amount > LARGEST:
        raise UnitError(f"{problem}: the largest is 2**63 - 1 {base}")
    return amount, unit


def _split(text: str, units: Mapping[str, Fraction], base: str, problem: str) -> tuple[Fraction, str]:
    text = text.strip()
    if len(text) > _LONGEST_TEXT:
        raise UnitError(f"{problem}: it has more than {_LONGEST_TEXT} characters")
    if text.startswith("-"):
        raise UnitError(f"{problem}: it must not be negative")
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise UnitError(problem)
    number, unit = match.groups()
    unit = _SPELLINGS.get(unit, unit) or base
    if unit not in units:
        raise UnitError(f"{problem}: the unit {_shown(unit)} is none of {', '.join(units)}")
    return Fraction(number), unit


def _exact(number: int | float, problem: str) -> Fraction:
    if isinstance(number, float) and not math.isfinite(number):
        raise UnitError(f"{problem}: it must be finite")
    if number < 0:
        raise UnitError(f"{problem}: it must not be negative")
    return Fraction(number)


def _refuse_bare_number(text: str, expected: str, units: str) -> None:
    if re.fullmatch(r"[0-9.]+", text.strip()):
        raise UnitError(f"expected {expected}, found {_shown(text)}: say the unit, {units}")


def _shown(value: object) -> str:
    """What was found, cut so that a message stays one line."""
    try:
        text = repr(value)
    except ValueError:  # an int with more digits than Python prints
        return "a number too large to print"
    return text if len(text) <= 48 else f"{text[:45]}..."


def _format(amount: float, units: Mapping[str, Fraction], large_to_small: tuple[str, ...], base: str) -> str:
    if not 0 <= amount <= float(LARGEST):
        raise UnitError(f"expected 0 to 2**63 - 1 {base} to print, found {amount}")
    # Rounded before the unit is chosen: 999.99us is 1ms, not 1000us.
    rounded = Fraction(f"{amount:.{_SIGNIFICANT_DIGITS - 1}e}")
    unit = next((unit for unit in large_to_small if rounded >= units[unit]), large_to_small[-1])
    in_unit = rounded / units[unit]
    if in_unit < _SMALLEST_PRINTED:
        return f"0{base}"
    return _plain(in_unit) + unit


def _plain(number: Fraction) -> str:
    """A number that decimals can write exactly, without exponent and without trailing zeros."""
    return f"{(Decimal(number.numerator) / number.denominator).normalize():f}"
