"""Requests of torchtitan: fully sharded data parallelism, with tensor, context and pipeline parallelism around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hemiola.collectives import CollectiveKind
from hemiola.placement.derive_megatron import (
    FLOAT_BYTES,
    context_requests,
    pipeline_requests,
    tensor_requests,
)
from hemiola.placement.model import num_elements
from hemiola.placement.parallel_job import ParallelJob
from hemiola.placement.traffic import TrafficRequest

SHARDED = ("dp", "cp")
"""Roles of the axes over which parameters are sharded."""


def derive_torchtitan(job: ParallelJob) -> Iterator[TrafficRequest]:
    """A step of dense layers; with a tensor axis, activations between blocks are spread over it."""
    if job.size("tp") > 1:
        job = replace(job, model=replace(job.model, sequence_parallel=True))
    yield from tensor_requests(job, num_mlp=1)
    yield from context_requests(job)
    yield from pipeline_requests(job)
    yield from _sharded_parameters(job)


def _sharded_parameters(job: ParallelJob) -> Iterator[TrafficRequest]:
    """Parameters are gathered layer by layer, and their gradients summed in float32 into shards.

    The gather of the next layer hides behind this one, and so does the scatter of the one before. Nothing hides the first gather of
    a step and its last scatter. With a pipeline, parameters stay gathered and gradients whole from the first microbatch to the last.
    """
    model, tp = job.model, job.size("tp")
    layers = job.divided("layers", model.layers, "pp")
    elements = -(-num_elements(model.layer_shapes) // tp // job.size(*SHARDED))
    part, whole = elements * model.element_bytes, elements * job.size(*SHARDED) * FLOAT_BYTES
    times = 1 if job.size("pp") > 1 else job.num_microbatches
    gather, scatter = CollectiveKind.ALLGATHER, CollectiveKind.REDUCESCATTER
    yield job.request(gather, SHARDED, part, 1, "", "parameters of the first layer")
    yield job.request(gather, SHARDED, part, layers * times - 1, "forward", "parameters of a layer, forward")
    if job.size("pp") == 1:
        yield job.request(
            gather, SHARDED, part, layers * times, "backward", "parameters of a layer, backward"
        )
    yield job.request(scatter, SHARDED, whole, layers * times - 1, "backward", "gradients of a layer")
    yield job.request(scatter, SHARDED, whole, 1, "", "gradients of the last layer")
    if model.vocab:
        table = -(-model.vocab * model.hidden // tp // job.size(*SHARDED))
        tables = 2 if job.size("pp") == 1 else 1
        yield job.request(
            gather, SHARDED, table * model.element_bytes, tables * times, "forward", "embedding and head"
        )
        yield job.request(
            scatter,
            SHARDED,
            table * job.size(*SHARDED) * FLOAT_BYTES,
            tables * times,
            "backward",
            "gradients of embedding and head",
        )
