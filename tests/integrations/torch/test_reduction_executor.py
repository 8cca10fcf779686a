"""Reduction programs on torch.distributed, with our backend and with Gloo."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from hemiola.cost.group_shape import regular_factors
from hemiola.placement.axes import Axis
from hemiola.placement.groups import device_groups
from hemiola.placement.matrix import ParallelismMatrix
from hemiola.synthesis.search import programs_up_to
from hemiola.synthesis.table import table_of
from hemiola.topology.system import Level, Link, System
from integrations.torch import reductions
from integrations.torch.torch_ranks import TorchRanks


def texts(depth: int, length: int) -> list[str]:
    return [str(program) for program in programs_up_to(table_of(depth), length)]


def test_programs_of_two_factors(ranks: TorchRanks) -> None:
    programs = texts(2, 5)[::7]
    assert set(ranks.run(reductions.sums, programs, (2, 2), [[0, 1, 2, 3]], None)) == {len(programs)}


def test_ranks_in_an_order_of_their_own(ranks: TorchRanks) -> None:
    programs = texts(2, 3)[::4]
    assert set(ranks.run(reductions.sums, programs, (2, 2), [[3, 0, 2, 1]], None)) == {len(programs)}


def test_groups_of_other_coordinates_run_at_once(ranks: TorchRanks) -> None:
    programs = texts(1, 2)
    assert set(ranks.run(reductions.sums, programs, (2,), [[0, 2], [1, 3]], None)) == {3}


@pytest.mark.parametrize("groups", [[[0, 1, 2, 3]], [[3, 0, 2, 1]]])
@pytest.mark.parametrize("text", texts(2, 3)[:6])
def test_tensors_of_any_layout_are_summed_where_they_are(
    ranks: TorchRanks, groups: list[list[int]], text: str
) -> None:
    assert ranks.run(reductions.sums_in_place, text, (2, 2), groups) == [[]] * 4


def test_other_requests_end_with_what_they_promise(ranks: TorchRanks) -> None:
    assert ranks.run(reductions.other_requests, (2, 2)) == [[]] * 4


@pytest.fixture(scope="module")
def eight() -> Iterator[TorchRanks]:
    ranks = TorchRanks(8, backend="gloo")
    yield ranks
    ranks.close()


@pytest.mark.slow
def test_all_programs_of_two_factors_on_gloo_and_on_hemiola(eight: TorchRanks) -> None:
    programs = texts(2, 5)
    for backend in ("gloo", "hemiola"):
        found = eight.run(reductions.sums, programs, (2, 4), [list(range(8))], backend)
        assert set(found) == {len(programs)}


@pytest.mark.slow
def test_two_axes_with_a_merged_level(eight: TorchRanks) -> None:
    """Levels (2, 4), axes 2x2 on both levels and 2 inside, reduced over two of three: factors (2, 2) and (1, 4)."""
    axes = tuple(Axis(name, 2) for name in "abc")
    matrix = ParallelismMatrix(axes, (2, 4), ((2, 1), (1, 2), (1, 2)))
    system = System("2x4", (Level("host", 2, Link(1e9, 1e9)), Level("gpu", 4, Link(1e9, 1e9))))
    for over, wanted in (("ab", (2, 2)), ("bc", (1, 4)), ("abc", (2, 4))):
        table = np.sort(device_groups(matrix, over), axis=1)
        assert regular_factors(system, table) == wanted
        factors, groups = tuple(factor for factor in wanted if factor > 1), table.tolist()
        programs = texts(len(factors), 3)[:10]
        assert set(eight.run(reductions.sums, programs, factors, groups, "gloo")) == {len(programs)}
