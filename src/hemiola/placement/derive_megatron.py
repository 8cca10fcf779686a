"""Requests of Megatron: tensor, context, pipeline, data and expert parallelism."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hemiola.collectives import CollectiveKind
from hemiola.errors import PlacementError
from hemiola.placement.model import num_elements
from hemiola.placement.parallel_job import ParallelJob
from hemiola.placement.traffic import TrafficRequest

FLOAT_BYTES = 4
"""Gradients are summed and losses computed in float32."""


def derive_megatron(job: ParallelJob) -> Iterator[TrafficRequest]:
    """A step of dense layers."""
    yield from tensor_requests(job, num_mlp=1)
    yield from context_requests(job)
    yield from pipeline_requests(job)
    yield from _gradients(job, "weights", _dense_elements(job), ("dp", "cp", "ep"))


def with_moe_rules(job: ParallelJob) -> ParallelJob:
    """The job as Megatron runs it: with tensor and expert parallelism it asks for sequence parallelism too."""
    if job.size("tp") == 1 or job.size("ep") == 1:
        return job
    if job.model.sequence_parallel is False:
        raise PlacementError(
            "traffic.sequence_parallel: Megatron refuses experts with tensor and expert parallelism but without sequence parallelism;"
            " leave it out or say true"
        )
    return replace(job, model=replace(job.model, sequence_parallel=True))


def derive_moe(job: ParallelJob) -> Iterator[TrafficRequest]:
    """A step in which every layer's MLP is experts, spread over ep, each cut over tp as attention is."""
    model, layers = job.model, job.divided("layers", job.model.layers, "pp")
    experts = job.divided("experts", max(model.experts, 1), "ep")
    # Without sequence parallelism the experts' outputs are partial sums over tp, as those of a dense MLP are.
    yield from tensor_requests(job, num_mlp=0 if model.sequence_parallel else 1)
    yield from context_requests(job)
    yield from pipeline_requests(job)
    # Every token goes to its experts and back, forward, and its gradient the same way backward.
    sent = _activation_bytes(job) * model.top_k // (job.size("tp") if model.sequence_parallel else 1)
    times = layers * job.num_microbatches
    yield job.request(
        CollectiveKind.ALLTOALL, ("ep",), sent, 2 * times, "", "tokens to experts and back, forward"
    )
    yield job.request(
        CollectiveKind.ALLTOALL, ("ep",), sent, 2 * times, "", "tokens to experts and back, backward"
    )
    if "tp" in job.roles and model.sequence_parallel:
        yield from _expert_tokens(job, sent, times)
    matrices = [shape for shape in model.mlp_shapes if len(shape) > 1]
    dense = _dense_elements(job) - layers * num_elements(tuple(matrices)) // job.size("tp")
    yield from _gradients(job, "dense weights", dense, ("dp", "cp", "ep"))
    each = layers * experts * num_elements(tuple(matrices)) // job.size("tp")
    # An expert is on one coordinate of ep, so its gradients are summed over the others.
    yield from _gradients(job, "experts", each, ("dp", "cp"))


def _expert_tokens(job: ParallelJob, sent: int, times: int) -> Iterator[TrafficRequest]:
    """An expert is cut over tp, so its tokens are gathered before it and its partial sums scattered after it; backward the same."""
    for way in ("forward", "backward"):
        yield job.request(
            CollectiveKind.ALLGATHER, ("tp",), sent, times, "", f"tokens of experts, gathered, {way}"
        )
        yield job.request(
            CollectiveKind.REDUCESCATTER,
            ("tp",),
            sent * job.size("tp"),
            times,
            "",
            f"tokens of experts, scattered, {way}",
        )


def _activation_bytes(job: ParallelJob) -> int:
    """Of a microbatch between two layers, whole in the tensor axis."""
    model = job.model
    return model.micro_batch * job.divided("seq", model.seq, "cp") * model.hidden * model.element_bytes


def tensor_requests(job: ParallelJob, num_mlp: int) -> Iterator[TrafficRequest]:
    model, tp = job.model, job.size("tp")
    if "tp" not in job.roles:
        return
    job.divided("heads", model.heads, "tp")
    whole, layers = _activation_bytes(job), job.divided("layers", model.layers, "pp")
    # Attention and MLP each end in a sum over tp, forward; their inputs' gradients are such sums, backward.
    blocks = (1 + num_mlp) * layers * job.num_microbatches
    for way in ("forward", "backward"):
        if not model.sequence_parallel:
            yield job.request(CollectiveKind.ALLREDUCE, ("tp",), whole, blocks, "", f"activations, {way}")
            continue
        # Between blocks each device has a part of the sequence: gathered before a block, scattered after it.
        yield job.request(
            CollectiveKind.ALLGATHER, ("tp",), whole // tp, blocks, "", f"activations, gathered, {way}"
        )
        yield job.request(
            CollectiveKind.REDUCESCATTER, ("tp",), whole, blocks, "", f"activations, scattered, {way}"
        )
    if model.sequence_parallel:
        # The gathered input was not kept, and the gradient of the weights needs it.
        yield job.request(
            CollectiveKind.ALLGATHER, ("tp",), whole // tp, blocks, "backward", "activations, gathered again"
        )
        # Norms see only a part of the sequence, so their gradients are summed once a step.
        norms = layers * 2 * model.hidden * FLOAT_BYTES
        yield job.request(CollectiveKind.ALLREDUCE, ("tp",), norms, 1, "", "gradients of norms")
    if model.vocab:
        yield from _vocabulary(job, whole)


def _vocabulary(job: ParallelJob, whole: int) -> Iterator[TrafficRequest]:
    """The head and the loss, on the last stage; the embedding, where that is the first stage too."""
    times, tokens = job.num_microbatches, job.model.micro_batch * job.divided("seq", job.model.seq, "cp")
    scattered = job.model.sequence_parallel
    tp = job.size("tp")
    if job.size("pp") == 1:
        # Each device looks up its part of the vocabulary, and the sum is the embedding.
        kind = CollectiveKind.REDUCESCATTER if scattered else CollectiveKind.ALLREDUCE
        yield job.request(kind, ("tp",), whole, times, "", "embedding, forward")
        if scattered:
            yield job.request(
                CollectiveKind.ALLGATHER, ("tp",), whole // tp, times, "", "embedding, backward"
            )
    if scattered:
        # As before a block, forward and for the weights' gradient.
        yield job.request(CollectiveKind.ALLGATHER, ("tp",), whole // tp, 2 * times, "", "input of the head")
    # The gradient of the head's input is a sum over the parts of the vocabulary.
    kind = CollectiveKind.REDUCESCATTER if scattered else CollectiveKind.ALLREDUCE
    yield job.request(kind, ("tp",), whole, times, "", "head, backward")
    # Largest logit, logit of the target, and sum of exponentials, each a number for a token.
    yield job.request(CollectiveKind.ALLREDUCE, ("tp",), tokens * FLOAT_BYTES, 3 * times, "", "loss")


def context_requests(job: ParallelJob) -> Iterator[TrafficRequest]:
    cp = job.size("cp")
    if cp == 1:
        return
    # Keys and values go round the ring, forward; they and their gradients do, backward.
    pair = 2 * _activation_bytes(job) * job.model.key_width // job.model.hidden // job.size("tp")
    times = (cp - 1) * job.divided("layers", job.model.layers, "pp") * job.num_microbatches
    yield job.request(CollectiveKind.ALLTONEXT, ("cp",), pair, times, "forward", "keys and values, forward")
    yield job.request(
        CollectiveKind.ALLTONEXT, ("cp",), 2 * pair, times, "backward", "keys and values, backward"
    )


def pipeline_requests(job: ParallelJob) -> Iterator[TrafficRequest]:
    if "pp" not in job.roles:
        return
    # With a part of the sequence on each device, only that part goes to the next stage.
    sent = _activation_bytes(job) // (job.size("tp") if job.model.sequence_parallel else 1)
    for way in ("forward", "backward"):
        yield job.request(
            CollectiveKind.ALLTONEXT,
            ("pp",),
            sent,
            job.num_microbatches,
            "",
            f"activations to the next stage, {way}",
        )


def _gradients(
    job: ParallelJob, name: str, elements: int, roles: tuple[str, ...]
) -> Iterator[TrafficRequest]:
    replicas = job.size(*roles)
    if job.model.zero == 0:
        # Every replica needs the whole sum.
        yield job.request(
            CollectiveKind.ALLREDUCE, roles, elements * FLOAT_BYTES, 1, "backward", f"gradients of {name}"
        )
        return
    # Each replica updates its part, and the updated parts are gathered.
    yield job.request(
        CollectiveKind.REDUCESCATTER, roles, elements * FLOAT_BYTES, 1, "backward", f"gradients of {name}"
    )
    part = -(-elements // replicas) * job.model.element_bytes
    yield job.request(CollectiveKind.ALLGATHER, roles, part, 1, "forward", f"updated {name}")


def _dense_elements(job: ParallelJob) -> int:
    """Parameters of a device on the last stage: matrices are cut over tp, norms are not."""
    model, tp = job.model, job.size("tp")
    layers = job.divided("layers", model.layers, "pp")
    matrices = tuple(shape for shape in model.layer_shapes if len(shape) > 1)
    norms = tuple(shape for shape in model.layer_shapes if len(shape) == 1)
    tables = 2 if job.size("pp") == 1 else 1
    vocabulary = tables * model.vocab * model.hidden // tp + (model.hidden if model.vocab else 0)
    return layers * (num_elements(matrices) // tp + num_elements(norms)) + vocabulary
