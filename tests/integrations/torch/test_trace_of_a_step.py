"""A trace that torch's profiler writes here is read as the step that was taken."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from hemiola.fusion.graph import StepPhase
from hemiola.fusion.read_trace import read_trace
from integrations.torch.steps import tied_step


def test_a_recorded_step_has_its_gradients_and_times(tmp_path: Path) -> None:
    module, loss_fn, batch = tied_step()
    optimizer = torch.optim.AdamW(module.parameters())
    path = tmp_path / "trace.json.gz"
    plan = schedule(wait=1, warmup=1, active=3)
    with profile(
        activities=[ProfilerActivity.CPU], schedule=plan, record_shapes=True, on_trace_ready=lambda one: one.export_chrome_trace(str(path)),
    ) as recorder:  # fmt: skip
        for _ in range(5):
            torch.autograd.backward(loss_fn(module(batch[0]), batch[1]))
            optimizer.step()
            optimizer.zero_grad()
            recorder.step()
    step = read_trace(path)
    sizes = sorted(one.num_bytes for one in step.graph.gradients)
    assert sizes == sorted(4 * one.numel() for one in module.parameters())
    phases = [one.phase for one in step.graph.operators]
    assert phases == sorted(phases, key=[StepPhase.FORWARD, StepPhase.BACKWARD].index)
    assert set(phases) == set(StepPhase)
    assert 0 < step.optimizer_seconds < step.seconds
    # What lies before the first operator belongs to none.
    assert step.compute_seconds + step.optimizer_seconds + step.exposed_seconds <= step.seconds * (1 + 1e-9)
    assert step.exposed_seconds == 0
