"""Constants of a runtime are found again in times that they made, also when a few rows are wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hemiola.algorithms.library import ALGORITHMS
from hemiola.compiler.compile import compile_program
from hemiola.errors import FormatError
from hemiola.ir.plan import Plan
from hemiola.simulator.calibrate.fit_runtime import Observation, RuntimeConstants, fit_runtime
from hemiola.simulator.timeline import Load
from hemiola.topology.shapes import load_shape

KIB, MIB = 1 << 10, 1 << 20


def built(algorithm: str, **parameters: object) -> Plan:
    return compile_program(ALGORITHMS[algorithm].build(**parameters)).plan


def allreduces(ranks: int) -> list[Plan]:
    names = ("allreduce_ring", "allreduce_double_binary_tree", "allreduce_halving_doubling")
    return [built(name, ranks=ranks, in_place=True) for name in names]


def test_what_a_runtime_costs_between_hosts_is_found_and_serves_another_shape() -> None:
    truth = RuntimeConstants(0.93, 80e-6, 1.5e9, 30e-6, 400e-6)
    shape, other = load_shape("2x4"), load_shape("4x2")
    rows = [
        Observation(shape, (Load(plan, size),), truth.predict([Load(plan, size)], shape))
        for plan in allreduces(8)
        for size in (16 * KIB, 256 * KIB, 4 * MIB)
    ]
    wrong = [replace(rows[0], seconds=3 * rows[0].seconds), *rows[1:]]
    for known, error in ((rows, 0.01), (wrong, 0.05)):
        found = fit_runtime(known)
        for plan in allreduces(8):
            for size in (64 * KIB, MIB):
                loads = [Load(plan, size)]
                assert found.predict(loads, other) == pytest.approx(truth.predict(loads, other), rel=error)
        assert found.efficiency == pytest.approx(truth.efficiency, rel=error)


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(FormatError, match="five constants need 6 measurements"):
        fit_runtime([])
