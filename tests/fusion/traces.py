"""Traces as torch's profiler writes them, made by hand: the documented form of a GPU job with NCCL."""

from __future__ import annotations

from typing import Any

COMPUTE, COMMUNICATION = 7, 20
"""Streams."""


def event(
    name: str, category: str, begin: float, length: float, thread: int = 1, fields: Any = None
) -> dict[str, Any]:
    """Times in microseconds."""
    return {
        "ph": "X", "name": name, "cat": category, "pid": 0, "tid": thread, "ts": begin, "dur": length, "args": fields or {},
    }  # fmt: skip


def gpu_step() -> dict[str, Any]:
    """One step: two kernels of forward, three of backward with two gradients, two all-reduces, and the optimizer.

    The compute stream works from 100 to 600 us with gaps of 10, stands still until the second all-reduce ends at 1000, and
    runs the optimizer from 1010 to 1110.
    """
    rows = [event("ProfilerStep#5", "user_annotation", 0, 1200)]
    kernels = [
        ("fwd1", 100, 90),
        ("fwd2", 200, 90),
        ("bwd2", 300, 90),
        ("wgrad2", 400, 90),
        ("wgrad1", 500, 100),
    ]
    for number, (name, begin, length) in enumerate(kernels):
        rows.append(
            event("cudaLaunchKernel", "cuda_runtime", 10 + 10 * number, 5, 1, {"correlation": number})
        )
        rows.append(event(name, "kernel", begin, length, COMPUTE, {"correlation": number, "stream": COMPUTE}))
    rows.append(event("autograd::engine::evaluate_function: MmBackward0", "cpu_op", 28, 20))
    for begin, shape in ((46, [1000, 250]), (56, [500])):
        fields = {"Input type": ["float"], "Input Strides": [[1]], "Input Dims": [shape]}
        rows.append(event("torch::autograd::AccumulateGrad", "cpu_op", begin, 2, 1, fields))
    said = {"Collective name": "allreduce", "dtype": "Float", "Group size": 8}
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    large = {**said, "In msg nelems": 250_000, "Out msg nelems": 250_000}
    rows.append(event(name, "kernel", 495, 305, COMMUNICATION, large))
    rows.append(event(name, "kernel", 800, 200, COMMUNICATION, {"External id": 77}))
    rows.append(
        event("record_param_comms", "cpu_op", 58, 2, 1, {**said, "In msg nelems": 500, "External id": 77})
    )
    rows.append(event("Optimizer.step#AdamW.step", "user_annotation", 70, 30))
    rows.append(event("cudaLaunchKernel", "cuda_runtime", 80, 5, 1, {"correlation": 99}))
    rows.append(
        event("multi_tensor_apply", "kernel", 1010, 100, COMPUTE, {"correlation": 99, "stream": COMPUTE})
    )
    return {"schemaVersion": 1, "traceEvents": rows}
