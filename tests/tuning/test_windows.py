"""The table of windows: it speaks of the whole library, and its last rows take whatever is left."""

from __future__ import annotations

import pytest

from hemiola.algorithms.library import ALGORITHMS
from hemiola.collectives import KINDS, CollectiveKind
from hemiola.tuning.layout import layout_of
from hemiola.tuning.windows import WINDOWS, WITHOUT_WINDOW, of_all_ranks, per_share, whole
from hemiola.units import LARGEST

LAYOUTS = [
    layout_of(hosts)
    for hosts in (
        (0,),
        (0,) * 17,
        (0,) * 1000,
        tuple(range(300)),
        tuple(range(4)),
        (0, 0, 1, 1),
        (0, 1, 0, 1),
        (0, 0, 1),
    )
]


def test_every_algorithm_has_windows_or_a_reason_to_have_none() -> None:
    in_windows = {window.algorithm for windows in WINDOWS.values() for window in windows}
    assert in_windows.isdisjoint(WITHOUT_WINDOW)
    assert in_windows | WITHOUT_WINDOW.keys() == ALGORITHMS.keys()


def test_every_collective_has_windows_of_its_own_algorithms() -> None:
    assert WINDOWS.keys() == KINDS.keys() - {"custom"}
    for kind, windows in WINDOWS.items():
        assert {ALGORITHMS[window.algorithm].kind for window in windows} == {kind}


@pytest.mark.parametrize("kind", WINDOWS)
def test_the_last_window_takes_whatever_is_left(kind: CollectiveKind) -> None:
    last = WINDOWS[kind][-1]
    for layout in LAYOUTS:
        assert last.when(layout) is None
        assert last.max_bytes(layout.num_ranks) == LARGEST


@pytest.mark.parametrize("kind", WINDOWS)
def test_no_window_is_hidden_by_those_before_it(kind: CollectiveKind) -> None:
    """Each is the first one for some layout and size."""
    windows = WINDOWS[kind]
    layouts = [*LAYOUTS, layout_of(tuple(rank // 20 for rank in range(40)))]
    first = set()
    for layout in layouts:
        for num_bytes in [0, *(1 << exponent for exponent in range(31))]:
            first.add(
                next(
                    number
                    for number, window in enumerate(windows)
                    if window.when(layout) is None and num_bytes <= window.max_bytes(layout.num_ranks)
                )
            )
    assert first == set(range(len(windows)))


def test_fixed_parameters_are_those_of_the_builder() -> None:
    for windows in WINDOWS.values():
        for window in windows:
            assert window.parameters.keys() <= ALGORITHMS[window.algorithm].parameters.keys()


def test_a_limit_of_all_ranks_lets_fewer_have_more_each() -> None:
    assert [of_all_ranks(4096)(num_ranks) for num_ranks in (1, 2, 16)] == [4096, 2048, 256]
    assert [whole(4096)(num_ranks) for num_ranks in (1, 2, 16)] == [4096, 4096, 4096]
    assert [per_share(4096)(num_ranks) for num_ranks in (1, 2, 16)] == [4096, 8192, 65536]


@pytest.mark.parametrize("num_ranks", [2, 8, 16])
def test_a_limit_of_shares_is_the_same_input_of_an_allgather_on_any_number_of_ranks(num_ranks: int) -> None:
    """Sizes are those of the collective; the input of a rank at the limit does not depend on how many ranks there are."""
    limit = per_share(4096)(num_ranks)
    assert CollectiveKind.ALLGATHER.input_bytes(limit, num_ranks) == 4096
    assert CollectiveKind.GATHER.input_bytes(limit, num_ranks) == 4096
