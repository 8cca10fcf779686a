"""step_time: how long a training step takes under degrees and a placement: computation, communication that stays exposed, and pipeline bubbles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hemiola.placement.derive import derive
from hemiola.placement.model import Model
from hemiola.placement.roles import role_of
from hemiola.placement.score import RequestTime
from hemiola.placement.traffic import Traffic, TrafficRequest
from hemiola.planner.accelerator import Accelerator
from hemiola.planner.compute_time import ComputeTime, compute_time, stage_layers
from hemiola.planner.degrees import Degrees
from hemiola.planner.training import Training


@dataclass(frozen=True, slots=True)
class JobStepTime:
    """Seconds of a step, and where they go."""

    compute: ComputeTime
    inside: float
    """Communication of microbatches that stays exposed: tensor, context, expert and pipeline parallelism."""
    outside: float
    """Communication once a step that stays exposed: gradients and parameters."""
    bubble: float
    """The share by which a pipeline that fills and drains makes microbatches longer."""

    @property
    def seconds(self) -> float:
        """Of the step."""
        busy = self.compute.forward + self.compute.backward + self.inside
        return busy * (1 + self.bubble) + self.outside + self.compute.optimizer

    @property
    def exposed(self) -> float:
        """Communication that nothing hides."""
        return self.inside + self.outside

    def scaled(self, compute: float, communication: float) -> float:
        """Seconds if computation and exposed communication took so many times as long."""
        busy = (self.compute.forward + self.compute.backward) * compute + self.inside * communication
        return busy * (1 + self.bubble) + self.outside * communication + self.compute.optimizer * compute

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "seconds": self.seconds,
            "compute_seconds": self.compute.seconds,
            "exposed_seconds": self.exposed,
            "bubble": self.bubble,
        }


def job_traffic(model: Model, training: Training, degrees: Degrees, device: Accelerator) -> Traffic:
    """The requests of a step, and the computation behind which they hide.

    Stages need not be even: the traffic is that of the slowest one.
    """
    compute = compute_time(model, training, degrees, device)
    trained = replace(
        training.model_for(model, tensor=degrees.tensor),
        layers=stage_layers(model, degrees) * degrees.pipeline,
        micro_batch=degrees.micro_batch,
        flops=1.0,  # so that requests hide; how long the computation takes is said below
    )
    traffic = derive(training.traffic_source(model), trained, degrees.axes)
    requests = tuple(_behind_one_microbatch(one, training, degrees) for one in traffic.requests)
    once = degrees.num_microbatches(model)
    computation = {"forward": compute.forward, "backward": compute.backward}
    return Traffic(
        requests,
        computation | {f"{name} of one microbatch": all_of / once for name, all_of in computation.items()},
        traffic.about,
    )


def _behind_one_microbatch(request: TrafficRequest, training: Training, degrees: Degrees) -> TrafficRequest:
    """Gradients are complete in the backward pass of the last microbatch only, and updated parameters are needed in the first forward pass.

    torchtitan scatters gradients in every microbatch, unless there is a pipeline.
    """
    is_every_microbatch = training.framework == "torchtitan" and degrees.pipeline == 1
    if not request.overlaps or is_every_microbatch or not _is_of_parameters(request):
        return request
    return replace(request, overlaps=f"{request.overlaps} of one microbatch")


def _is_of_parameters(request: TrafficRequest) -> bool:
    """Whether a request carries parameters or their gradients between replicas, and not activations of a microbatch."""
    carried = ("gradients of", "updated", "parameters of", "embedding and head")
    return request.name.startswith(carried) and "tp" not in {role_of(name) for name in request.over}


def step_time(
    model: Model,
    training: Training,
    degrees: Degrees,
    device: Accelerator,
    times: tuple[RequestTime, ...],
    *,
    bound: bool = False,
) -> JobStepTime:
    """The step under a placement that has these times of requests; with ``bound``, as if every request took as long as its bound."""
    inside = outside = 0.0
    for one in times:
        seconds = one.bound_seconds if bound else one.exposed_seconds
        if _is_of_parameters(one.request):
            outside += seconds
        else:
            inside += seconds
    bubble = (degrees.pipeline - 1) / degrees.num_microbatches(model)
    return JobStepTime(compute_time(model, training, degrees, device), inside, outside, bubble)
