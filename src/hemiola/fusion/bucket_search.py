"""bucket_search: better buckets for given groups, where exact merging does not reach: split forms, parts, and contention."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hemiola.fusion.plan import Bucket, BucketForm
from hemiola.fusion.search_state import CostTable, SearchState

MIN_GAIN = 1e-6
"""Of the step; less is no improvement."""
MOST_PARTS = 16
COUNTS = (1, 2, 4, 8, 16, 32)
"""Numbers of buckets that are tried."""


def improve_buckets(
    table: CostTable, state: SearchState, *, split: bool, max_candidates: int = 400
) -> SearchState:
    """The same groups with buckets that no single change makes better, or as far as so many candidates go."""
    end = table.num_candidates + max_candidates
    improved = True
    while improved and table.num_candidates < end:
        improved = False
        for number in range(len(state.buckets)):
            for buckets in _changed(table, state.buckets, number, split=split):
                found = table.with_buckets(state.grouping, state.seconds, buckets)
                if found.cost < state.cost * (1 - MIN_GAIN):
                    state, improved = found, True
                    break
            if table.num_candidates >= end:
                break
    return state


def first_split(table: CostTable, state: SearchState) -> SearchState:
    """The best of some numbers of buckets of about equal bytes, of which the last are split; and of the given buckets likewise.

    What is ready first has the backward pass left to be all-reduced in; what is ready last has only the next forward pass.
    """
    best, order = state, _order_of_reading(state)
    rows = [state.buckets, *(_equal_buckets(table, order, count) for count in COUNTS)]
    for row in rows:
        for kept in sorted({len(row) * part // 8 for part in range(9)}):
            buckets = tuple(
                replace(bucket, form=BucketForm.SPLIT if number >= kept else BucketForm.ALLREDUCE)
                for number, bucket in enumerate(row)
            )
            best = min(
                best,
                table.with_buckets(state.grouping, state.seconds, buckets),
                key=lambda one: one.cost,
            )
    return best


def _order_of_reading(state: SearchState) -> list[int]:
    return [gradient for bucket in state.buckets for gradient in bucket.gradients]


def _equal_buckets(table: CostTable, order: list[int], count: int) -> tuple[Bucket, ...]:
    sizes = table.evaluator.graph.gradients
    total = sum(sizes[one].num_bytes for one in order)
    rows: list[list[int]] = [[]]
    done = 0
    for one in order:
        if rows[-1] and done >= total * len(rows) / count:
            rows.append([])
        rows[-1].append(one)
        done += sizes[one].num_bytes
    return tuple(Bucket(tuple(row)) for row in rows if row)


def _changed(
    table: CostTable, buckets: tuple[Bucket, ...], number: int, *, split: bool
) -> Iterator[tuple[Bucket, ...]]:
    """Buckets that differ in one respect around one bucket."""
    if number >= len(buckets):
        return
    here = buckets[number]
    before, after = buckets[:number], buckets[number + 1 :]
    if split:
        other = BucketForm.ALLREDUCE if here.form is BucketForm.SPLIT else BucketForm.SPLIT
        yield (*before, replace(here, form=other), *after)
    if here.num_parts < MOST_PARTS:
        yield (*before, replace(here, num_parts=2 * here.num_parts), *after)
    if here.num_parts > 1:
        yield (*before, replace(here, num_parts=here.num_parts // 2), *after)
    if len(here.gradients) > 1:
        place = _middle(table, here)
        halves = (
            replace(here, gradients=here.gradients[:place]),
            replace(here, gradients=here.gradients[place:]),
        )
        yield (*before, *halves, *after)
    if after:
        yield from _borders(before, here, after)


def _borders(
    before: tuple[Bucket, ...], here: Bucket, after: tuple[Bucket, ...]
) -> Iterator[tuple[Bucket, ...]]:
    """The border to the next bucket removed, or moved by one gradient."""
    following, others = after[0], after[1:]
    yield (*before, replace(following, gradients=here.gradients + following.gradients), *others)
    if len(here.gradients) > 1:
        less = replace(here, gradients=here.gradients[:-1])
        more = replace(following, gradients=here.gradients[-1:] + following.gradients)
        yield (*before, less, more, *others)
    if len(following.gradients) > 1:
        more = replace(here, gradients=here.gradients + following.gradients[:1])
        less = replace(following, gradients=following.gradients[1:])
        yield (*before, more, less, *others)


def _middle(table: CostTable, bucket: Bucket) -> int:
    """Where a bucket falls into halves of about equal bytes."""
    sizes = [table.evaluator.graph.gradients[one].num_bytes for one in bucket.gradients]
    half, done = sum(sizes) / 2, 0
    for place, size in enumerate(sizes):
        if done + size > half:
            return min(max(place, 1), len(sizes) - 1)
        done += size
    return len(sizes) - 1
