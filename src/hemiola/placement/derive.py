"""derive: the requests that a training step of a model makes, in the ways that frameworks train.

Functions say the bytes of a member's input; `ParallelJob.request` makes them those of the collective. The roles of axes are Megatron's: tp, cp, ep, dp and pp.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from hemiola.collectives import CollectiveKind
from hemiola.errors import PlacementError
from hemiola.placement.axes import Axes
from hemiola.placement.derive_megatron import derive_megatron, derive_moe, with_moe_rules
from hemiola.placement.derive_torchtitan import derive_torchtitan
from hemiola.placement.model import Model, num_elements
from hemiola.placement.parallel_job import ParallelJob
from hemiola.placement.roles import roles_of
from hemiola.placement.traffic import Traffic, TrafficRequest

DDP_BUCKET_BYTES = 25 << 20
"""torch's bucket_cap_mb; its first bucket is smaller, which is not modelled."""


def derive(source: str, model: Model, axes: Axes) -> Traffic:
    """The traffic of a step, as ``source`` trains."""
    sources = {
        "megatron": derive_megatron,
        "moe": derive_moe,
        "torchtitan": derive_torchtitan,
        "fsdp2": derive_fsdp2,
        "ddp": derive_ddp,
    }
    if source not in sources:
        raise PlacementError(f"traffic.from: expected one of {', '.join(sources)}, found {source[:40]!r}")
    job = ParallelJob(model, roles_of(axes), {axis.name: axis.size for axis in axes})
    if source == "moe":
        job = with_moe_rules(job)
    requests = tuple(request for request in sources[source](job) if _is_needed(request, job))
    return Traffic(requests, _computation(job), f"derived from {source}")


def derive_fsdp2(job: ParallelJob) -> Iterator[TrafficRequest]:
    """torch's fully_shard on every layer and on the whole."""
    job.only("dp", "fsdp2")
    model, times, shards = job.model, job.num_microbatches, job.size("dp")
    for name, shapes, many in (("layer", model.layer_shapes, model.layers), ("outer", model.outer_shapes, 1)):
        if not shapes:
            continue
        # Every parameter is cut along its first dimension, the last shard padded to the others' length.
        shard = sum(-(-shape[0] // shards) * math.prod(shape[1:]) for shape in shapes) * model.element_bytes
        # Parameters are gathered before their layer runs.
        yield job.request(
            CollectiveKind.ALLGATHER,
            ("dp",),
            shard,
            many * times,
            "forward",
            f"parameters of {name}, forward",
        )
        # They are freed afterwards and gathered again, except with zero: 2, and the outermost ones, which backward needs first.
        if name == "layer" and model.zero != 2:
            yield job.request(
                CollectiveKind.ALLGATHER,
                ("dp",),
                shard,
                many * times,
                "backward",
                f"parameters of {name}, backward",
            )
        # Gradients are summed straight into their shards.
        yield job.request(
            CollectiveKind.REDUCESCATTER,
            ("dp",),
            shard * shards,
            many * times,
            "backward",
            f"gradients of {name}",
        )


def derive_ddp(job: ParallelJob) -> Iterator[TrafficRequest]:
    """torch's DistributedDataParallel."""
    job.only("dp", "ddp")
    model = job.model
    total = model.layers * num_elements(model.layer_shapes) + num_elements(model.outer_shapes)
    num_bytes = total * model.element_bytes
    # Gradients of the last microbatch go out in buckets while backward runs; earlier ones stay (no_sync).
    buckets = -(-num_bytes // DDP_BUCKET_BYTES)
    yield job.request(
        CollectiveKind.ALLREDUCE, ("dp",), -(-num_bytes // buckets), buckets, "backward", "gradients"
    )


def _is_needed(request: TrafficRequest, job: ParallelJob) -> bool:
    return (
        request.num_bytes > 0 and request.per_step > 0 and any(job.sizes[name] > 1 for name in request.over)
    )


def _computation(job: ParallelJob) -> Mapping[str, float]:
    """Two operations for each parameter and token forward, twice as many backward."""
    model = job.model
    if not model.flops:
        return {}
    dense = model.layers * num_elements(model.layer_shapes) + model.vocab * model.hidden
    tokens = model.global_batch * model.seq
    forward = 2 * dense * tokens / math.prod(job.sizes.values()) / model.flops
    return {"forward": forward, "backward": 2 * forward}
