"""Where programs are replayed, replays order them, whatever their estimates said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hemiola.collectives import CollectiveKind
from hemiola.cost.request import CollectiveRequest
from hemiola.synthesis import synthesize as module
from hemiola.synthesis.estimate import EstimatedProgram
from hemiola.synthesis.synthesize import SynthesizedProgram, synthesize
from hemiola.topology.shapes import load_shape
from hemiola.tuning.plan_search import PlanSearch


def test_the_fastest_replay_is_first_though_its_estimate_is_last(monkeypatch: pytest.MonkeyPatch) -> None:
    original, times = module._replayed, iter((3.0, 2.0, 1.0))

    def slower_first(one: EstimatedProgram, search: PlanSearch, num_bytes: int) -> SynthesizedProgram:
        found = original(one, search, num_bytes)
        assert found.replayed is not None
        return replace(found, replayed=replace(found.replayed, seconds=next(times)))

    monkeypatch.setattr(module, "_replayed", slower_first)
    request = CollectiveRequest.of_system(CollectiveKind.ALLREDUCE, load_shape("2x4"))
    result = synthesize(request, 1 << 16, top=3)
    assert [one.seconds for one in result.programs] == [1.0, 2.0, 3.0]
    estimates = [one.estimate.seconds for one in result.programs]
    assert estimates == sorted(estimates, reverse=True)
    assert estimates[0] > estimates[-1]
