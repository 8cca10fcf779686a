"""OperatorFacts: arrays over the operators and tensors of a graph, of which the features of any of its groups are made."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hemiola.fusion.graph import Operator, OpGraph, WorkKind
from hemiola.fusion.operator_times import OperatorTimes

Numbers = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

CALL_SECONDS = 3e-6
"""About what it costs to call an operator alone, whatever it does."""

LOOPS = {
    "heavy": ("exp", "log", "tanh", "sigmoid", "erf", "pow", "sin", "cos", "gelu", "expm1", "log1p"),
    "division": ("div", "sqrt", "rsqrt", "reciprocal"),
    "choice": ("where", "eq", "ne", "le", "lt", "ge", "gt", "logical_and", "logical_or", "bitwise_and",
               "bitwise_or", "logical_not", "bitwise_not", "maximum", "minimum", "relu", "clamp"),
    "change": ("_to_copy", "convert_element_type", "clone", "copy", "expand", "cat", "slice_scatter",
               "select_scatter", "constant_pad_nd"),
}  # fmt: skip
"""Kinds of operators whose elements cost about the same; all others are `LIGHT`."""
LIGHT = "light"
LOOP_NAMES = (*LOOPS, LIGHT, "reduction", "indexed")
STANDING_ALONE = ("aten.sort", "aten.argsort", "aten.topk", "aten.cumsum")
"""Kinds that the compiler of CPUs gives to a kernel of its own although it could write loops for them."""

_TENSOR = re.compile(r"\w+\[([\d, ]*); ([\d, ]*)\]")


@dataclass(frozen=True)
class OperatorFacts:
    """All arrays are indexed by operator, those of tensors by tensor."""

    kinds: tuple[str, ...]
    """``add`` for ``aten.add.Tensor``."""
    loops: Integers
    """The place of its kind of loop in `LOOP_NAMES`."""
    stands_alone: npt.NDArray[np.bool_]
    """A kernel of its own, or one that draws random numbers."""
    work_seconds: Numbers
    """Its measured seconds alone, without the call."""
    own_seconds: Numbers
    elements: Numbers
    """Over which its loop runs: the elements of its output, or of the largest input that it reduces."""
    bytes_read: Numbers
    bytes_made: Numbers
    flops: Numbers
    is_integer: npt.NDArray[np.bool_]
    """Whether its output holds integers or truth values."""
    is_strided: npt.NDArray[np.bool_]
    """Whether it reads a tensor whose last dimension is not contiguous."""
    last_dim: Numbers
    """Elements in the last dimension of its output, or of what it reduces."""
    tensor_bytes: Numbers


def operator_facts(graph: OpGraph, times: OperatorTimes) -> OperatorFacts:
    """Of every operator of a graph."""
    seconds = times.seconds(graph)
    sizes = np.array([one.num_bytes for one in graph.tensors], dtype=float)
    counts = [math.prod(one.shape) for one in graph.tensors]
    operators = graph.operators
    return OperatorFacts(
        tuple(short_kind(one.kind) for one in operators),
        np.array([_loop(one) for one in operators]),
        np.array([_stands_alone(one) for one in operators]),
        np.maximum(seconds - CALL_SECONDS, 0.1 * seconds),
        seconds,
        np.array([float(_elements(one, counts)) for one in operators]),
        np.array([sizes[list(one.inputs)].sum() for one in operators]),
        np.array([sizes[list(one.outputs)].sum() for one in operators]),
        np.array([one.flops for one in operators]),
        np.array([_is_integer(graph, one) for one in operators]),
        np.array([_is_strided(one.signature) for one in operators]),
        np.array([float(_last_dim(graph, one)) for one in operators]),
        sizes,
    )


def short_kind(kind: str) -> str:
    """``add`` for ``aten.add.Tensor``."""
    parts = kind.split(".")
    return parts[1] if len(parts) > 1 else kind


def _loop(one: Operator) -> int:
    if one.work is WorkKind.REDUCTION:
        return LOOP_NAMES.index("reduction")
    short = short_kind(one.kind)
    named = next((name for name, kinds in LOOPS.items() if short in kinds), None)
    if named is None:
        named = "indexed" if one.work is WorkKind.INDEXED else LIGHT
    return LOOP_NAMES.index(named)


def _stands_alone(one: Operator) -> bool:
    return one.work.is_kernel_of_its_own or one.work is WorkKind.RANDOM or one.kind.startswith(STANDING_ALONE)


def _elements(one: Operator, counts: list[int]) -> int:
    made = max((counts[tensor] for tensor in one.outputs), default=1)
    if one.work is WorkKind.REDUCTION:
        return max(made, *(counts[tensor] for tensor in one.inputs)) if one.inputs else made
    return made


def _is_integer(graph: OpGraph, one: Operator) -> bool:
    return bool(one.outputs) and "float" not in graph.tensors[one.outputs[0]].dtype


def _last_dim(graph: OpGraph, one: Operator) -> int:
    tensors = one.inputs if one.work is WorkKind.REDUCTION and one.inputs else one.outputs
    shapes = [graph.tensors[tensor].shape for tensor in tensors]
    largest = max(shapes, key=math.prod, default=())
    return largest[-1] if largest else 1


def _is_strided(signature: str) -> bool:
    """Whether the signature has a tensor whose last dimension of more than one element is not contiguous."""
    for shape, strides in _TENSOR.findall(signature):
        dims = [
            (int(size), int(stride))
            for size, stride in zip(shape.split(","), strides.split(","), strict=True)
            if size.strip() and int(size) > 1
        ]
        if dims and dims[-1][1] not in (0, 1):
            return True
    return False
