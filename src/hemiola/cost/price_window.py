"""price_window: the table of one plan, filled by replays at few sizes.

A size is cut into tiles of one length, the last of which may be shorter, so that times depend on two numbers: how many
tiles there are, and how long the last one is. For 1, 2, 4, 8, ... tiles, the time is replayed with a last tile of several
lengths (`_TileCurve`). Numbers between them lie on straight lines unless a replay in the middle says otherwise, and beyond
the number at which tiles follow each other at a steady pace, they go on at that pace.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, sqrt

import numpy as np
import numpy.typing as npt

from hemiola.cost.tile_times import TileLengths, TileTimes

Amounts = npt.NDArray[np.float64]

GOOD_ENOUGH = 0.006
"""A line is kept where a replay in its middle is no farther off."""
WIDE = 4
"""Where the ends of a line are so many times apart, its geometric middle is replayed too."""
MOST_HALVINGS = 5
"""How often a line is cut in two; what is not straight then is a jump."""
SMALL_JUMP = 0.008
"""One tile more takes so little of the whole that the table may go on in a line."""
STEADY = 0.002
"""Paces that differ by less are equal."""
ROUGHLY_STEADY = 0.005
"""The same where tiles have so many steps that more of them would take long."""
KINK = 4
"""Three numbers of tiles are on a line where the third is so many times `GOOD_ENOUGH` off: what lies between is nearer to it."""
SHAPED = 8
"""From so many tiles on, a shorter last tile mostly saves what it saves after fewer of them."""
FEW_TILES = 4
"""Up to so many tiles, lines are cut in two until they are good enough."""
LEAST_STEADY = 16
"""Steady tiles are more than the slots of a connection hold."""
SURELY_STEADY = 64
"""Where a tile has few steps, so many are replayed before their pace is trusted, and their last two quarters are compared."""
MOST_REPLAYED = 512
"""Tiles of a replay, at most."""
MOST_STEPS = 250_000
"""Of a replay that only looks whether paces are steady; where a tile has many, few tiles have to do."""
MOST_IN_BETWEEN = 60_000
"""Steps of all replays of numbers of tiles one by one, where times do not lie on lines between powers of two."""
MOST_JUMPS = 160
"""Tiles whose both sides are in the table, at most."""
GRID = 1.25
"""The length of tiles is asked for at sizes so many times as large as the one before."""
LARGEST_FACTOR = 4096
"""The table ends at so many tiles, and goes on in a straight line."""
SMALL_SHARE_BYTES = 16 << 10
"""Shares up to this size that leave elements over are padded as a whole (csrc/runtime/tiles.h)."""


@dataclass(frozen=True)
class PriceWindow:
    """The times of one plan."""

    max_bytes: float
    """Sizes up to this one have this plan."""
    plan: str
    """Its name."""
    unit_bytes: float
    """Sizes that are multiples of it leave no elements over."""
    sizes: Amounts
    seconds: Amounts
    slope: float
    """Seconds of every further byte beyond the last size."""
    remainder_seconds: float
    """What one more tile of one element a chunk takes."""
    small_bytes: float
    """Up to this size, data that leaves elements over is padded to the next multiple instead."""

    def at(self, num_bytes: Amounts) -> Amounts:
        """The seconds of sizes of this window."""
        whole = np.floor(num_bytes / self.unit_bytes + 1e-9)
        has_rest = num_bytes - whole * self.unit_bytes > 1e-6 * self.unit_bytes
        padded = has_rest & (num_bytes <= self.small_bytes)
        counted = (whole + padded) * self.unit_bytes
        inside: Amounts = np.interp(counted, self.sizes, self.seconds)
        beyond = np.maximum(counted - self.sizes[-1], 0.0) * self.slope
        found: Amounts = inside + beyond + np.where(has_rest & ~padded, self.remainder_seconds, 0.0)
        return found


def fill_window(times: TileTimes, least: float, most: float) -> tuple[PriceWindow, float]:
    """The table for sizes above ``least`` up to ``most``, and how far its lines were off, at most."""
    unit, small = times.unit, SMALL_SHARE_BYTES * times.plan.collective.num_shares()
    first = max(1, int(least // unit))
    known, worst, slope = dict[int, float](), 0.0, 0.0
    ranges = list(_ranges(times, first, max(first, int(most // unit))))
    for one in ranges:
        filler = _Filler(times, one)
        slope = filler.fill(known)
        worst = max(worst, filler.error)
    sizes = np.array(sorted(known), np.float64)
    seconds = np.array([known[size] for size in sorted(known)])
    rest = _remainder(times, ranges[0], ceil(small / unit))
    return PriceWindow(most, times.plan.name, unit, sizes * unit, seconds, slope / unit, rest, small), worst


def _remainder(times: TileTimes, one: _EqualTiles, least: int) -> float:
    """Seconds of one more tile of one element a chunk, after whole ones."""
    elements = max(one.first, min(one.length, one.last), least)
    elements = min(elements, LEAST_STEADY * one.length)
    more = times.seconds(elements, one.lengths, left_over=True)
    return max(0.0, more - times.seconds(elements, one.lengths))


@dataclass(frozen=True, slots=True)
class _EqualTiles:
    """Sizes whose tiles have the same length; or, where it changes with the size, sizes without such a length."""

    first: int
    last: int
    lengths: TileLengths
    is_constant: bool = True

    @property
    def length(self) -> int:
        """Of the group with most tiles."""
        return min(self.lengths)


def _ranges(times: TileTimes, first: int, last: int) -> Iterator[_EqualTiles]:
    """The sizes of a window by the length of their tiles, which the runtime chooses by the size of the data."""
    begin = first
    while begin <= last:
        lengths = times.tile_lengths(begin)
        end = min(last, LARGEST_FACTOR * min(lengths))
        known, size = begin, begin
        while size < end and times.tile_lengths(size) == lengths:
            known, size = size, min(end, max(size + 1, ceil(size * GRID)))
        if times.tile_lengths(size) == lengths:
            # The largest sizes have tiles of equal length, and the table ends before.
            yield _EqualTiles(begin, end, lengths)
            return
        if known > begin:
            while size - known > 1:
                middle = (known + size) // 2
                known, size = (middle, size) if times.tile_lengths(middle) == lengths else (known, middle)
            yield _EqualTiles(begin, known, lengths)
            begin = known + 1
        else:
            yield _EqualTiles(begin, size - 1, lengths, is_constant=size - begin <= 1)
            begin = size


@dataclass(frozen=True, slots=True)
class _TileCurve:
    """Times of some number of tiles by the length of the last one."""

    lengths: Amounts
    seconds: Amounts
    is_chord: bool
    """Whether a straight line from the first to the last entry is good enough."""
    is_settled: bool = False
    """Whether it has the shape of the curve of fewer tiles."""

    @property
    def full(self) -> float:
        """With a whole last tile."""
        return float(self.seconds[-1])

    def at(self, length: float) -> float:
        return float(np.interp(length, self.lengths, self.seconds))


def _curve_of(entries: dict[int, float], whole: int) -> _TileCurve:
    """Replayed sizes, of which so many elements are in tiles before the last one."""
    lengths = np.array(sorted(entries), np.float64)
    seconds = np.array([entries[elements] for elements in sorted(entries)])
    chord = np.interp(lengths, lengths[[0, -1]], seconds[[0, -1]])
    return _TileCurve(lengths - whole, seconds, bool((np.abs(chord / seconds - 1) <= GOOD_ENOUGH).all()))


@dataclass
class _Filler:
    times: TileTimes
    tiles: _EqualTiles
    error: float = 0.0
    """How far a line was from a replay in its middle, at most, where it was kept."""
    curves: dict[int, _TileCurve] = field(default_factory=dict)
    """By the number of tiles."""
    numbers: list[int] = field(default_factory=list)
    """Those of the curves, in order."""
    pace: float = 0.0
    """Seconds of every further tile."""
    jump: float = 0.0
    """How far the last curve is from a straight line through whole tiles."""

    def fill(self, known: dict[int, float]) -> float:
        """Add the entries for these sizes, and give the seconds of every further element."""
        if not self.tiles.is_constant:
            entries = self._refined(self.tiles.first, self.tiles.last, MOST_HALVINGS, self._any)
            known.update(entries)
            return 0.0
        self._replay_curves()
        self.pace, self.jump = self._last_pace(), self._jump(self.numbers[-1])
        self._replay_in_between()
        for elements in self._entries():
            known[elements] = self._value(elements)
        return self.pace / self.tiles.length

    def _any(self, elements: int) -> float:
        return self.times.seconds(elements, self.times.tile_lengths(elements))

    def _replayed(self, elements: int) -> float:
        return self.times.seconds(elements, self.tiles.lengths)

    @property
    def _last_number(self) -> int:
        return -(-self.tiles.last // self.tiles.length)

    def _replay_curves(self) -> None:
        """Curves of more and more tiles, until their pace is steady; where a window begins with many, those of few come first."""
        first = -(-self.tiles.first // self.tiles.length)
        number, has_jumps = min(first, 2), True
        while True:
            self._add(number, has_jumps)
            before = self.numbers[:-1]
            if before:
                has_jumps = len(before) < 2 or self._jump(number) >= SMALL_JUMP * self.curves[number].full
            if len(before) >= 2:
                self._check(before[-2], before[-1], number, has_jumps)
            elif before:
                self._split(before[-1], number, has_jumps)
            if number >= self._last_number or self._is_steady() or not self._may_replay(number * 2):
                return
            number = min(number * 2, max(self._last_number, number + 1))

    def _replay_in_between(self) -> None:
        """Curves of all numbers of tiles, as far as a budget goes, where times do not lie on lines between powers of two."""
        if not self._is_uneven():
            return
        steps = 0
        for number in range(2, self.numbers[-1]):
            steps += 2 * number * self.times.num_steps
            if steps > MOST_IN_BETWEEN:
                return
            whole = (number - 1) * self.tiles.length
            if number not in self.curves:
                insort(self.numbers, number)
            self.curves[number] = _curve_of(self._last_tiles(number), whole)

    def _is_uneven(self) -> bool:
        """Whether neighbours had to be told apart, or one tile more than a power of two is off: tiles wait for slots in turn."""
        for low, high in pairwise(self.numbers):
            if low < FEW_TILES:
                continue
            if high == low + 1:
                return True
            after = (low + 1) * self.tiles.length
            error = abs(self._value(after) / self._replayed(after) - 1)
            if error > GOOD_ENOUGH:
                return True
            self.error = max(self.error, error)
            if low >= SHAPED:  # beyond, a turn is little of the whole
                return False
        return False

    def _add(self, number: int, has_jumps: bool) -> None:
        self.curves[number] = self._curve(number, has_jumps)
        insort(self.numbers, number)

    def _check(self, before: int, low: int, high: int, has_jumps: bool) -> None:
        """Curves between two numbers of tiles, unless three lie on a line or a replay in the middle does."""
        full = {number: self.curves[number].full for number in (before, low, high)}
        expected = full[low] + (full[low] - full[before]) * (high - low) / (low - before)
        if abs(expected / full[high] - 1) > GOOD_ENOUGH * (KINK if high > SHAPED else 1):
            self._split(low, high, has_jumps)

    def _split(self, low: int, high: int, has_jumps: bool) -> None:
        middle = (low + high) // 2
        if middle == low or high < self.tiles.first // self.tiles.length:
            return
        expected = [self._value((middle - 1) * self.tiles.length + rest) for rest in (1, self.tiles.length)]
        self._add(middle, has_jumps)
        found = [self.curves[middle].at(rest) for rest in (1, self.tiles.length)]
        error = max(abs(line / replayed - 1) for line, replayed in zip(expected, found, strict=True))
        if error > GOOD_ENOUGH:
            self._split(low, middle, has_jumps)
            self._split(middle, high, has_jumps)
        else:
            self.error = max(self.error, error)

    def _may_replay(self, number: int) -> bool:
        """Whether a replay of so many tiles is worth its time."""
        most = min(MOST_REPLAYED, MOST_STEPS // max(1, self.times.num_steps))
        return number <= max(LEAST_STEADY, most)

    def _is_steady(self) -> bool:
        """Whether the last tiles came at the pace of those before."""
        last = self.numbers[-1]
        if len(self.numbers) < 3 or last < LEAST_STEADY:
            return False
        if last >= SURELY_STEADY:
            middle = self._replayed(last * 3 // 4 * self.tiles.length)
            half = self._replayed(last // 2 * self.tiles.length)
            before, now = middle - half, self.curves[last].full - middle
            return abs(now - before) <= STEADY * now
        if SURELY_STEADY * self.times.num_steps <= MOST_STEPS // 4:
            return False
        before, now = self._pace_between(*self.numbers[-3:-1]), self._pace_between(*self.numbers[-2:])
        return abs(now - before) <= ROUGHLY_STEADY * now

    def _pace_between(self, low: int, high: int) -> float:
        """Seconds of a tile."""
        return (self.curves[high].full - self.curves[low].full) / (high - low)

    def _last_pace(self) -> float:
        if len(self.numbers) < 2:
            return 0.0
        return max(self._pace_between(*self.numbers[-2:]), self.times.busy_seconds * self.tiles.length)

    def _curve(self, number: int, has_jumps: bool) -> _TileCurve:
        length = self.tiles.length
        if number == 1:
            high = min(length, self.tiles.last)
            low = min(self.tiles.first, high)
            return _curve_of(self._refined(low, high, MOST_HALVINGS, self._replayed), 0)
        if not has_jumps:
            full = self._replayed(number * length)
            pace = (full - self.curves[self.numbers[-1]].full) / (number - self.numbers[-1])
            return _TileCurve(np.array([0.0, length]), np.array([full - pace, full]), True)
        return self._like_fewer(number) or _curve_of(self._last_tiles(number), (number - 1) * length)

    def _like_fewer(self, number: int) -> _TileCurve | None:
        """The curve of fewer tiles, later by what the further ones take, unless a replay with the shortest last tile denies it."""
        if number < SHAPED or self.numbers[-1] == 1:
            return None
        like, full = self.curves[self.numbers[-1]], self._replayed(number * self.tiles.length)
        moved = like.seconds + (full - like.full)
        if not like.is_settled:
            shortest = self._replayed((number - 1) * self.tiles.length + 1)
            if abs(moved[0] / shortest - 1) > GOOD_ENOUGH / 2:
                return None
        return _TileCurve(like.lengths, moved, like.is_chord, True)

    def _last_tiles(self, number: int) -> dict[int, float]:
        """Replays of whole tiles and one of several lengths: those that the curve before needed."""
        length, like = self.tiles.length, self.curves.get(self.numbers[-1]) if self.numbers else None
        low, high = (number - 1) * length + 1, number * length
        if self.numbers[-1:] < [2] or like is None:
            return self._refined(low, high, 2, self._replayed)
        wanted = [1, length] if like.is_chord else [max(1, round(one)) for one in like.lengths]
        return {low - 1 + one: self._replayed(low - 1 + one) for one in wanted}

    def _refined(
        self, low: int, high: int, halvings: int, replayed: Callable[[int], float]
    ) -> dict[int, float]:
        """Entries between two sizes until lines between them are good enough."""
        found = {low: replayed(low), high: replayed(high)}
        # Over a wide range, times hardly depend on the size near the low end, and on nothing else near the high one.
        geometric = {int(sqrt(low * high))} if high > WIDE * low else set()
        middles = sorted((geometric | {(low + high) // 2}) - {low, high})
        if not middles:
            return found
        lines = np.interp(middles, [low, high], [found[low], found[high]])
        found |= {middle: replayed(middle) for middle in middles}
        error = max(abs(line / found[middle] - 1) for line, middle in zip(lines, middles, strict=True))
        if error <= GOOD_ENOUGH or halvings == 0:
            self.error = max(self.error, float(error))
            return found
        for one, other in pairwise([low, *middles, high]):
            found |= self._refined(one, other, halvings - 1, replayed)
        return found

    def _jump(self, number: int) -> float:
        """How far the curve of a number of tiles is from a straight line through whole tiles."""
        curve = self.curves[number]
        at = self.numbers.index(number)
        pace = self._pace_between(self.numbers[at - 1], number) if at else 0.0
        line = curve.full - pace * (1 - curve.lengths / self.tiles.length)
        return float(np.abs(curve.seconds - line).max())

    def _entries(self) -> Iterator[int]:
        """The sizes of the table: the nodes of curves while tiles are noticed, and then some whole tiles."""
        first, last, length = self.tiles.first, self.tiles.last, self.tiles.length
        yield first
        yield last
        number = -(-first // length)
        while number <= min(self._last_number, MOST_JUMPS):
            nodes = self._nodes(number)
            for node in nodes:
                elements = (number - 1) * length + node
                if first <= elements <= last:
                    yield elements
            full = self._value(number * length)
            if number > self.numbers[-1] and self.jump < SMALL_JUMP * full:
                return
            number += 1

    def _nodes(self, number: int) -> list[int]:
        """Lengths of the last tile at which the curves beside a number of tiles have entries."""
        found = {1, self.tiles.length}
        for one in self._beside(number):
            found |= {round(length) for length in self.curves[one].lengths if length >= 1}
        return sorted(found)

    def _beside(self, number: int) -> tuple[int, int]:
        """The numbers of tiles with curves, below and above a number or equal to it."""
        at = bisect_left(self.numbers, number)
        if at == len(self.numbers):
            return self.numbers[-1], self.numbers[-1]
        high = self.numbers[at]
        return (high if high == number or at == 0 else self.numbers[at - 1]), high

    def _value(self, elements: int) -> float:
        """The seconds of a size, from the curves beside it."""
        number = -(-elements // self.tiles.length)
        rest = elements - (number - 1) * self.tiles.length
        low, high = self._beside(number)
        below, above = self.curves[low].at(rest), self.curves[high].at(rest)
        if low == high:
            return below + max(0, number - high) * self.pace
        return below + (above - below) * (number - low) / (high - low)
