"""Every algorithm of the library on real data: threads and processes, all types and operators, any size."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hemiola.algorithms.library import ALGORITHMS
from hemiola.collectives import FACTS
from hemiola.runtime.launch import RankKind
from runtime.campaigns import NUMERIC, SIZES, Case, cases, run_jobs

SMALL = ("0", "1", "7", "4 KiB")
SAMPLE: dict[tuple[int, RankKind], tuple[str, ...]] = {
    (2, "threads"): (*SMALL, "1 MiB + 3"),
    (3, "threads"): (*SMALL, "1 MiB + 3"),
    (4, "threads"): SMALL,
    (6, "threads"): ("7", "4 KiB"),
    (8, "threads"): ("7",),
    (16, "threads"): ("1",),
    (2, "processes"): (*SMALL, "1 MiB + 3"),
    (5, "processes"): SMALL,
    (8, "processes"): ("4 KiB",),
    (16, "processes"): ("7",),
}
"""What is always tested; the rest is slow."""

LARGE = (
    Case("allreduce_ring", (("ranks", "2"), ("in-place", "true")), "64 MiB", "float32", "sum"),
    Case("alltoall_allpairs", (("ranks", "2"),), "64 MiB", "int8", "sum"),
)
LARGER = (
    Case("allreduce_allpairs", (("ranks", "3"),), "64 MiB", "bfloat16", "avg"),
    Case("allreduce_double_binary_tree", (("ranks", "3"), ("in-place", "true")), "64 MiB", "float64", "max"),
    Case("allgather_ring", (("ranks", "3"),), "64 MiB", "float16", "sum"),
    Case("reducescatter_ring", (("ranks", "3"),), "64 MiB", "int32", "prod"),
    Case("alltoall_two_step", (("ranks", "3"), ("levels", "1,3")), "64 MiB", "float32", "sum"),
    Case("broadcast_tree", (("ranks", "3"), ("root", "2")), "64 MiB", "uint8", "sum"),
    Case("gather_tree", (("ranks", "3"), ("root", "1")), "64 MiB", "int64", "sum"),
)


def sample_of(num_ranks: int, kind: RankKind) -> list[Case]:
    """Begins elsewhere in the turns for every group, so that together they meet every type and operator."""
    first = 1000 * num_ranks + (17 if kind == "processes" else 0)
    return list(cases(num_ranks, SAMPLE[num_ranks, kind], first))


def whole_sample() -> Iterator[tuple[RankKind, Case]]:
    for num_ranks, kind in SAMPLE:
        for case in sample_of(num_ranks, kind):
            yield kind, case
    for case in LARGE:
        yield "threads", case


def test_the_sample_meets_everything() -> None:
    """Every algorithm and size, in and out of place, as threads and processes; every operator on every type."""
    sample = list(whole_sample())
    assert {case.algorithm for _, case in sample} == set(ALGORITHMS)
    assert {case.size for _, case in sample} == set(SIZES)
    assert {(case.element, case.op) for _, case in sample if case.sums} == set(NUMERIC)
    assert {(kind, case.algorithm) for kind, case in sample} == {
        (kind, name) for kind in ("threads", "processes") for name in ALGORITHMS
    }
    places = {(case.algorithm, case.in_place) for _, case in sample}
    for name, algorithm in ALGORITHMS.items():
        assert (name, False) in places
        assert ((name, True) in places) == FACTS[algorithm.kind].can_be_in_place


@pytest.mark.parametrize(("num_ranks", "kind"), SAMPLE, ids=lambda value: str(value))
def test_library_plans_give_the_right_result(num_ranks: int, kind: RankKind) -> None:
    run_jobs(num_ranks, kind, [case.job() for case in sample_of(num_ranks, kind)])


@pytest.mark.parametrize("case", LARGE, ids=str)
def test_large_data_is_right(case: Case) -> None:
    run_jobs(2, "threads", [case.job()])


@pytest.mark.slow
@pytest.mark.parametrize("case", LARGER, ids=str)
@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_large_data_is_right_on_more_ranks(case: Case, kind: RankKind) -> None:
    run_jobs(3, kind, [case.job()])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["threads", "processes"])
@pytest.mark.parametrize("num_ranks", range(2, 17))
def test_library_plans_give_the_right_result_on_all_numbers_of_ranks(num_ranks: int, kind: RankKind) -> None:
    sizes = (*SMALL, "1 MiB + 3")
    first = 100 * num_ranks + (50_000 if kind == "processes" else 0)
    run_jobs(num_ranks, kind, [case.job() for case in cases(num_ranks, sizes, first)])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_meets_every_type_and_operator(name: str) -> None:
    """Of four ranks; 40 pairs, or one operator for each type where nothing is added up."""
    sums = FACTS[ALGORITHMS[name].kind].sums
    pairs = NUMERIC if sums else [pair for pair in NUMERIC if pair[1] == "sum"]
    shape = (
        (("ranks", "4"), ("levels", "2,2")) if "levels" in ALGORITHMS[name].parameters else (("ranks", "4"),)
    )
    jobs = [Case(name, shape, "4 KiB", element, op).job() for element, op in pairs]
    run_jobs(4, "threads", jobs)
