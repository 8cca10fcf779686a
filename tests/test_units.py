"""Sizes, times and bandwidths: what is printed can be read again, and junk is refused in one way."""

import contextlib
import doctest
import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemiola import units
from hemiola.errors import UnitError
from hemiola.units import (
    LARGEST,
    format_bandwidth,
    format_bytes,
    format_seconds,
    parse_bandwidth,
    parse_bytes,
    parse_seconds,
    parse_size_range,
)

Parser = Callable[[object], int | float | tuple[int, ...]]

PARSERS: list[Parser] = [parse_bytes, parse_seconds, parse_bandwidth, parse_size_range]

unit_like = st.from_regex(r"\s*[-+]?[0-9.eE_]{0,80}\s*[KMGTkmgtnuiBbs/\u00b5]{0,6}(\.\.)?", fullmatch=True)
anything = st.one_of(
    st.text(),
    unit_like,
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.binary(),
    st.lists(st.integers()),
    st.just(10**5000),
)


def test_examples_in_the_docstrings() -> None:
    results = doctest.testmod(units)
    assert results.attempted > 0
    assert results.failed == 0


@given(st.integers(0, LARGEST))
def test_bytes_round_trip(num_bytes: int) -> None:
    assert parse_bytes(format_bytes(num_bytes)) == num_bytes


@given(st.integers(1, 999), st.sampled_from(["B", "KB", "MB", "GB", "TB"]))
def test_round_decimal_sizes_keep_their_unit(count: int, unit: str) -> None:
    assert format_bytes(parse_bytes(f"{count}{unit}")) == f"{count}{unit}"


@given(st.integers(0, 9), st.sampled_from(["B", "KiB", "MiB", "GiB", "TiB"]))
def test_powers_of_two_keep_their_unit(exponent: int, unit: str) -> None:
    assert format_bytes(parse_bytes(f"{2**exponent}{unit}")) == f"{2**exponent}{unit}"


@given(st.floats(1e-12, 1e9))
def test_seconds_round_trip_to_four_digits(seconds: float) -> None:
    text = format_seconds(seconds)
    assert math.isclose(parse_seconds(text), seconds, rel_tol=5.1e-4)
    assert format_seconds(parse_seconds(text)) == text


@given(st.floats(1e-3, 1e17))
def test_bandwidth_round_trips_to_four_digits(bandwidth: float) -> None:
    text = format_bandwidth(bandwidth)
    assert math.isclose(parse_bandwidth(text), bandwidth, rel_tol=5.1e-4)
    assert format_bandwidth(parse_bandwidth(text)) == text


@given(st.floats(0, 2**63))
def test_every_allowed_time_can_be_printed_and_read(seconds: float) -> None:
    assert parse_seconds(format_seconds(seconds)) >= 0


@given(st.integers(0, 62), st.integers(0, 62))
def test_size_range_doubles_from_first_to_last(a: int, b: int) -> None:
    low, high = sorted((a, b))
    sizes = parse_size_range(f"{format_bytes(2**low)}..{format_bytes(2**high)}")
    assert sizes == tuple(2**exponent for exponent in range(low, high + 1))


@pytest.mark.parametrize("parse", PARSERS)
@given(value=anything)
def test_anything_is_read_or_refused_with_unit_error(parse: Parser, value: object) -> None:
    with contextlib.suppress(UnitError):
        result = parse(value)
        amounts = result if isinstance(result, tuple) else (result,)
        assert all(0 <= amount <= float(LARGEST) for amount in amounts)


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        ("0", 0),
        (" 64 MiB ", 64 * 2**20),
        ("1kB", 1000),
        ("1.2GiB", 1288490189),
        (str(LARGEST), LARGEST),
    ],
)
def test_sizes_as_people_write_them(text: str, num_bytes: int) -> None:
    assert parse_bytes(text) == num_bytes


@pytest.mark.parametrize(
    ("text", "seconds"), [("3ns", 3e-9), ("10\N{MICRO SIGN}s", 1e-5), ("10\N{GREEK SMALL LETTER MU}s", 1e-5)]
)
def test_times_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("-1KiB", "negative"),
        (-1, "negative"),
        ("nan", "64MiB"),
        (math.nan, "finite"),
        (math.inf, "finite"),
        (LARGEST + 1, "2**63 - 1"),
        ("9000PiB", "2**63 - 1"),
        ("9" * 65, "64 characters"),
        ("64Q", "none of B, KiB"),
        ("64Mb", "'Mb'"),
        ("1e9", "64MiB"),
        ("0.5", "divided"),
        (0.5, "divided"),
        ("", "64MiB"),
        ("\N{ARABIC-INDIC DIGIT FOUR}KiB", "64MiB"),
        (None, "neither a text nor a number"),
        (True, "neither a text nor a number"),
    ],
)
def test_refused_sizes_say_why(value: object, reason: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse_bytes(value)
    assert reason in str(caught.value)
    assert str(caught.value).startswith("expected a size such as 64MiB, 1GB or 4096, found ")


@pytest.mark.parametrize(
    ("parse", "value", "reason"),
    [
        (parse_seconds, "10", "say the unit"),
        (parse_seconds, "10us/s", "none of ns, us"),
        (parse_bandwidth, "10", "say the unit"),
        (parse_bandwidth, "0GB/s", "more than zero"),
        (parse_bandwidth, "200GB", "'GB'"),
        (parse_size_range, "3KiB..64MiB", "powers of two"),
        (parse_size_range, "0..64MiB", "powers of two"),
        (parse_size_range, "64MiB..4KiB", "larger than the last"),
        (parse_size_range, "4KiB..", "64MiB"),
    ],
)
def test_refused_values_say_why(parse: Parser, value: str, reason: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse(value)
    assert reason in str(caught.value)


@pytest.mark.parametrize("amount", [-1.0, math.nan, math.inf, 1e19])
def test_amounts_that_cannot_be_read_are_not_printed(amount: float) -> None:
    for print_amount in (format_seconds, format_bandwidth):
        with pytest.raises(UnitError):
            print_amount(amount)


@pytest.mark.parametrize("num_bytes", [-1, LARGEST + 1])
def test_sizes_that_cannot_be_read_are_not_printed(num_bytes: int) -> None:
    with pytest.raises(UnitError):
        format_bytes(num_bytes)


def test_spellings_of_the_field() -> None:
    assert [parse_bytes(text) for text in ("64K", "64M", "1G")] == [1 << 16, 1 << 26, 1 << 30], (
        "as nccl-tests"
    )
    assert parse_bandwidth("400Gb/s") == parse_bandwidth("400Gbit/s") == 50e9
    assert parse_size_range("4K..16K") == (4096, 8192, 16384)
