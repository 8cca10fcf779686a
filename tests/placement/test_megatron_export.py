"""What is written for Megatron is what it takes: orders, flags and code, held against its rules."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hemiola.placement.applied import AppliedPlacement
from hemiola.placement.axes import parse_axes
from hemiola.placement.enumerate import enumerate_placements, level_counts
from hemiola.placement.exports.megatron import (
    megatron_args_text,
    megatron_flags,
    megatron_init_text,
    megatron_order,
    why_no_megatron,
)
from hemiola.placement.exports.megatron_rules import NAMES, MegatronSizes, all_groups, why_refused
from hemiola.placement.matrix import ParallelismMatrix
from hemiola.placement.roles import role_of
from hemiola.topology.presets import load_system
from hemiola.topology.system import System
from placement.megatron_reference import initialize

SYSTEM = load_system("2x4")
SIZES = st.sampled_from([1, 2, 3])
ORDERS = st.sampled_from(["-".join(words) for words in permutations(NAMES)])


@given(ORDERS, SIZES, SIZES, SIZES, SIZES, SIZES)
@settings(max_examples=300)
def test_the_rules_are_those_of_the_reference(
    order: str, tp: int, cp: int, ep: int, dp: int, pp: int
) -> None:
    sizes = MegatronSizes(tp=tp, cp=cp, ep=ep, dp=dp, pp=pp)
    try:
        made = initialize(order, sizes.world, tp, pp, cp, ep)
    except AssertionError:
        assert why_refused(order, sizes) is not None
        return
    assert why_refused(order, sizes) is None
    mine = all_groups(order, sizes)
    names = {
        "tp": "tp",
        "cp": "cp",
        "pp": "pp",
        "dp": "gradients",
        "ep": "ep",
        "expert_dp": "expert gradients",
    }
    for name, same in names.items():
        assert sorted(map(sorted, mine[same])) == made[name], name


@pytest.mark.parametrize(
    ("order", "sizes", "reason"),
    [
        ("ep-pp-tp-dp-cp", MegatronSizes(tp=2, ep=2, dp=2, pp=2), "pp is not last"),
        ("tp-cp-ep-pp-dp", MegatronSizes(tp=2, ep=4, pp=2), "pp is not last"),
        (
            "tp-cp-pp-ep-dp",
            MegatronSizes(cp=2, ep=2, dp=2, pp=2),
            "the pipelines of attention and of experts",
        ),
        ("tp-dp-pp", MegatronSizes(tp=2, dp=2, pp=2), "names each of"),
    ],
)
def test_orders_that_megatron_refuses(order: str, sizes: MegatronSizes, reason: str) -> None:
    found = why_refused(order, sizes)
    assert found is not None
    assert reason in found


def applied(*rows: tuple[int, ...], axes: str, system: str = "2x4") -> AppliedPlacement:
    machine = load_system(system)
    matrix = ParallelismMatrix(parse_axes(axes), level_counts(machine), rows)
    return AppliedPlacement(machine, matrix.axes, matrix.device_grid(), matrix)


JOBS = [
    ("2x4", "dp=4,tp=2"),
    ("2x4", "pp=2,dp=2,tp=2"),
    ("2x4", "dp=2,ep=2,tp=2"),
    ("2x4", "pp=2,ep=2,tp=2"),
    ("4x4", "pp=2,dp=2,ep=2,tp=2"),
    ("4x4", "pp=2,dp=2,cp=2,tp=2"),
    ("4x4", "cp=2,ep=2,dp=2,tp=2"),
    ("2racks-2x2", "pp=2,dp=2,tp=2"),
]


@pytest.mark.parametrize(("system", "axes"), JOBS)
def test_every_exported_order_is_taken_and_gives_the_groups(system: str, axes: str) -> None:
    """For all placements of a job: Megatron accepts the order, and its groups spread over units as those of the placement do."""
    machine, named = load_system(system), parse_axes(axes)
    sizes = {str(role_of(axis.name)): axis.size for axis in named}
    exported = 0
    for matrix in enumerate_placements(machine, named):
        placement = AppliedPlacement(machine, named, matrix.device_grid(), matrix)
        order = megatron_order(placement)
        if order is None:
            assert why_no_megatron(placement) is not None
            assert megatron_args_text(placement) is megatron_init_text(placement) is None
            continue
        exported += 1
        made = initialize(
            order, machine.num_ranks, *(sizes.get(name, 1) for name in ("tp", "pp", "cp", "ep"))
        )
        for role, over in (
            ("tp", ("tp",)),
            ("pp", ("pp",)),
            ("ep", ("ep",)),
            ("cp", ("cp",)),
            ("dp", ("dp", "cp", "ep")),
        ):
            rows = _groups(placement, over)
            assert sorted(map(_spread(machine), made[role])) == sorted(map(_spread(machine), rows)), (
                order,
                role,
            )
        assert (megatron_args_text(placement) is None) != (megatron_init_text(placement) is None)
    assert exported


def _groups(placement: AppliedPlacement, over: tuple[str, ...]) -> list[list[int]]:
    axes = [number for number, name in enumerate(placement.names) if role_of(name) in over]
    moved = np.moveaxis(placement.grid, axes, range(-len(axes), 0))
    size = int(np.prod([placement.shape[axis] for axis in axes]))
    return [sorted(row) for row in moved.reshape(-1, size).tolist()]


def _spread(machine: System) -> Callable[[list[int]], tuple[int, ...]]:
    """How many units of each level a group has members in."""
    devices = machine.devices
    depth = len(devices[0])
    return lambda group: tuple(
        len({devices[rank][:level] for rank in group}) for level in range(1, depth + 1)
    )


def test_flags_of_the_command_line() -> None:
    default = applied((2, 2), (1, 2), axes="data=4,model=2")
    assert megatron_order(default) == "tp-cp-ep-dp-pp"
    assert megatron_flags(default) == "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 1"
    inside = applied((1, 2), (2, 1), (1, 2), axes="pp=2,dp=2,tp=2")
    assert megatron_order(inside) == "tp-cp-ep-pp-dp"
    assert megatron_flags(inside) == (
        "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --use-tp-pp-dp-mapping"
    )
    experts = applied((2, 1), (1, 2), (1, 2), axes="dp=2,ep=2,tp=2")
    assert megatron_flags(experts) == (
        "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 1 --expert-model-parallel-size 2 --sequence-parallel"
    )
    text = megatron_args_text(inside)
    assert text is not None
    assert re.search(r'^export MEGATRON_PARALLEL_ARGS="--tensor', text, re.MULTILINE)


def test_code_where_no_flag_asks_for_the_order() -> None:
    split = applied((1, 4), (2, 1), axes="data=4,model=2")
    assert megatron_flags(split) is None
    text = megatron_init_text(split)
    assert text is not None
    compile(text, "megatron_init.py", "exec")
    (order,) = re.findall(r'order="([a-z-]+)"', text)
    assert initialize(order, 8, 2, 1, 1, 1)["tp"] == [[0, 4], [1, 5], [2, 6], [3, 7]]


def test_what_megatron_cannot_say() -> None:
    crossed = AppliedPlacement(
        SYSTEM, parse_axes("data=4,model=2"), np.array([[0, 4], [1, 5], [2, 7], [3, 6]]), None
    )
    assert megatron_order(crossed) is None
    assert "none of the orders that it takes" in (why_no_megatron(crossed) or "")
    named = applied((1, 4), (2, 1), axes="rows=4,columns=2")
    assert "none of Megatron's" in (why_no_megatron(named) or "")
    around = applied((2, 1, 2), (1, 2, 1), axes="dp=4,tp=2", system="2racks-2x2")
    assert megatron_order(around) is None
