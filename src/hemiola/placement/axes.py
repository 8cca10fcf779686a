"""Axes: the named sizes by which a job divides its devices, written ``data=8,model=4``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache

from hemiola.errors import PlacementError

MOST_AXES = 16
LARGEST_AXIS = 1 << 20
EXAMPLE = "data=8,model=4"


@dataclass(frozen=True, slots=True)
class Axis:
    """One way in which devices differ in their work."""

    name: str
    size: int


Axes = tuple[Axis, ...]


def parse_axes(text: str) -> Axes:
    """The axes of a text like ``data=8,model=4``."""
    parts = text.split(",")
    if len(parts) > MOST_AXES:
        raise PlacementError(f"axes: expected up to {MOST_AXES} axes such as {EXAMPLE}, found {len(parts)}")
    return check_axes(_parse_axis(part.strip()) for part in parts)


def check_axes(axes: Iterable[Axis]) -> Axes:
    """Axes whose names differ."""
    checked = tuple(axes)
    names = [axis.name for axis in checked]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise PlacementError(f"axes: {twice!r} is there twice; every axis has its own name, as in {EXAMPLE}")
    return checked


def find_axis(axes: Axes, name: str, where: str) -> int:
    """The number of an axis."""
    names = [axis.name for axis in axes]
    if name in names:
        return names.index(name)
    near = get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"the axes are {', '.join(names)}"
    raise PlacementError(f"{where}: there is no axis {name[:40]!r}; {hint}")


def check_sizes(axes: Axes, num_devices: int, system: str) -> None:
    """Refuse axes that do not multiply to the devices, and name the nearest sizes that do."""
    product = math.prod(axis.size for axis in axes)
    if product == num_devices:
        return
    nearest = nearest_sizes(tuple(axis.size for axis in axes), num_devices)
    shown = ",".join(f"{axis.name}={size}" for axis, size in zip(axes, nearest, strict=True))
    raise PlacementError(
        f"axes: {'x'.join(str(axis.size) for axis in axes)} is {product}, but system {system!r} has {num_devices}"
        f" devices; the nearest sizes that fit are {shown}"
    )


def nearest_sizes(sizes: tuple[int, ...], product: int) -> tuple[int, ...]:
    """The sizes with that product whose ratios to the given ones are nearest to one; of equals, fewest changes."""
    divisors = [number for number in range(1, product + 1) if product % number == 0]

    @cache
    def best(first: int, rest: int) -> tuple[float, int, tuple[int, ...]]:
        if first == len(sizes) - 1:
            return (*_distance(sizes[first], rest), (rest,))
        return min(_choices(first, rest))

    def _choices(first: int, rest: int) -> Iterator[tuple[float, int, tuple[int, ...]]]:
        for size in divisors:
            if rest % size == 0:
                far, changes, following = best(first + 1, rest // size)
                here, changed = _distance(sizes[first], size)
                yield round(far + here, 9), changes + changed, (size, *following)

    return best(0, product)[2]


def _distance(asked: int, size: int) -> tuple[float, int]:
    return round(abs(math.log(size / asked)), 9), int(size != asked)


def _parse_axis(part: str) -> Axis:
    match = re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]{0,39})\s*=\s*([0-9]{1,9})", part)
    if match is None:
        raise PlacementError(f"axes: expected names and sizes such as {EXAMPLE}, found {part[:40]!r}")
    name, size = match[1], int(match[2])
    if not 1 <= size <= LARGEST_AXIS:
        raise PlacementError(f"axes: {name} has size {size}; expected 1 to {LARGEST_AXIS}")
    return Axis(name, size)
