"""OpGraph: the operators of one training step, the tensors between them, and the gradients that are reduced over workers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from hemiola.errors import FusionError

VERSION = 1
"""Of the JSON document."""


class WorkKind(StrEnum):
    """What kind of work an operator is, as far as fusing it is concerned."""

    POINTWISE = "pointwise"
    """Every element of the output is computed from elements at the same place; fuses with its neighbours."""
    REDUCTION = "reduction"
    """Sums, maxima and the like; fuses with its neighbours on most compilers."""
    INDEXED = "indexed"
    """Reads or writes elements at places that another tensor names."""
    RANDOM = "random"
    """Draws random numbers."""
    MATMUL = "matmul"
    """A product of matrices, a kernel of its own."""
    CONVOLUTION = "convolution"
    """A convolution, a kernel of its own."""
    OPAQUE = "opaque"
    """Any other kernel of its own, such as a sort or an attention kernel."""
    VIEW = "view"
    """Another view of the same memory; no work."""

    @property
    def is_kernel_of_its_own(self) -> bool:
        """No compiler fuses it with others."""
        return self in (WorkKind.MATMUL, WorkKind.CONVOLUTION, WorkKind.OPAQUE)


class StepPhase(StrEnum):
    """The part of the step to which an operator belongs."""

    FORWARD = "forward"
    BACKWARD = "backward"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value that operators pass on."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of the step."""

    name: str
    """Unique in the graph, and the same each time the model is captured."""
    kind: str
    """As the framework calls it: ``aten.addmm.default``."""
    work: WorkKind
    phase: StepPhase
    inputs: tuple[int, ...]
    """Tensors that it reads, by number."""
    outputs: tuple[int, ...]
    """Tensors that it makes, by number."""
    signature: str
    """Kind, shapes, strides, element types and constants: operators with equal signatures take equally long."""
    flops: float = 0.0


@dataclass(frozen=True, slots=True)
class Gradient:
    """A tensor that is averaged over all workers."""

    parameter: str
    tensor: int
    num_bytes: int
    parameter_tensors: tuple[int, ...] = ()
    """Tensors given to the step that hold the parameter; several where it is tied. Without any, the first operator reads it."""


@dataclass(frozen=True)
class OpGraph:
    """A training step. Operators stand in an order in which they can run."""

    name: str
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    gradients: tuple[Gradient, ...]
    results: tuple[int, ...]
    """Tensors that leave the step beside the gradients: the loss, and buffers that the step changes."""

    def __post_init__(self) -> None:
        names = [operator.name for operator in self.operators]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise FusionError(f"graph {self.name!r}: two operators are called {twice!r}; names are unique")
        made: set[int] = set()
        produced = {tensor for operator in self.operators for tensor in operator.outputs}
        for operator in self.operators:
            self._check_numbers(operator.name, (*operator.inputs, *operator.outputs))
            early = [tensor for tensor in operator.inputs if tensor in produced and tensor not in made]
            if early:
                raise FusionError(
                    f"graph {self.name!r}: operator {operator.name!r} reads tensor {self.tensors[early[0]].name!r} before"
                    " it is made; operators stand in an order in which they can run"
                )
            again = made.intersection(operator.outputs)
            if again:
                raise FusionError(
                    f"graph {self.name!r}: operator {operator.name!r} makes tensor {self.tensors[min(again)].name!r}, which"
                    " another operator made before"
                )
            made.update(operator.outputs)
        self._check_numbers("results", self.results)
        self._check_numbers("gradients", (gradient.tensor for gradient in self.gradients))
        for gradient in self.gradients:
            if gradient.tensor not in produced:
                raise FusionError(
                    f"graph {self.name!r}: no operator makes the gradient of parameter {gradient.parameter!r}"
                )
            self._check_numbers(f"parameter {gradient.parameter!r}", gradient.parameter_tensors)
            computed = produced.intersection(gradient.parameter_tensors)
            if computed:
                raise FusionError(
                    f"graph {self.name!r}: an operator makes tensor {self.tensors[min(computed)].name!r} of parameter"
                    f" {gradient.parameter!r}; parameters are given to the step"
                )

    def _check_numbers(self, where: str, tensors: Iterable[int]) -> None:
        for tensor in tensors:
            if not 0 <= tensor < len(self.tensors):
                raise FusionError(
                    f"graph {self.name!r}: {where} names tensor {tensor}; the graph has {len(self.tensors)} tensors"
                )

    @cached_property
    def producers(self) -> dict[int, int]:
        """The operator that makes each tensor; tensors that are given to the step are not in it."""
        return {tensor: number for number, one in enumerate(self.operators) for tensor in one.outputs}

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """The operators that run before each operator, ascending, each once.

        They are those whose tensors it reads, and for an operator that draws random numbers also the one that draws before it:
        the numbers depend on the order.
        """
        made, found, last_random = self.producers, list[tuple[int, ...]](), set[int]()
        for number, operator in enumerate(self.operators):
            before = {made[tensor] for tensor in operator.inputs if tensor in made}
            if operator.work is WorkKind.RANDOM:
                before, last_random = before | last_random, {number}
            found.append(tuple(sorted(before)))
        return tuple(found)

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        """The operators that run after each operator, as `predecessors` says, ascending, each once."""
        found: list[list[int]] = [[] for _ in self.operators]
        for number, before in enumerate(self.predecessors):
            for one in before:
                found[one].append(number)
        return tuple(map(tuple, found))

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """Of each gradient, the operators that read its parameter, ascending."""
        reading: dict[int, list[int]] = {}
        for number, one in enumerate(self.operators):
            for tensor in set(one.inputs):
                reading.setdefault(tensor, []).append(number)
        return tuple(
            tuple(sorted({one for tensor in gradient.parameter_tensors for one in reading.get(tensor, ())}))
            for gradient in self.gradients
        )

    @cached_property
    def leaving(self) -> frozenset[int]:
        """Tensors that somebody outside of the step reads: results and gradients."""
        return frozenset((*self.results, *(gradient.tensor for gradient in self.gradients)))

    @property
    def gradient_bytes(self) -> int:
        """Of all gradients."""
        return sum(gradient.num_bytes for gradient in self.gradients)

    @cached_property
    def digest(self) -> str:
        """The same for the same step, whatever file it comes from."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def to_json(self) -> dict[str, Any]:
        """For files; `graph_from_json` reads it back."""
        return {
            "format": "hemiola-op-graph",
            "version": VERSION,
            "name": self.name,
            "tensors": [[one.name, list(one.shape), one.dtype, one.num_bytes] for one in self.tensors],
            "operators": [
                {
                    "name": one.name,
                    "kind": one.kind,
                    "work": one.work.value,
                    "phase": one.phase.value,
                    "inputs": list(one.inputs),
                    "outputs": list(one.outputs),
                    "signature": one.signature,
                    "flops": one.flops,
                }
                for one in self.operators
            ],
            "gradients": [
                [one.parameter, one.tensor, one.num_bytes, list(one.parameter_tensors)]
                for one in self.gradients
            ],
            "results": list(self.results),
        }


def graph_from_json(document: Any) -> OpGraph:
    """The inverse of `OpGraph.to_json`; a document that is none gives one sentence."""
    if not isinstance(document, dict) or document.get("format") != "hemiola-op-graph":
        raise FusionError("this is no operator graph: its field 'format' is not 'hemiola-op-graph'")
    if document.get("version") != VERSION:
        raise FusionError(
            f"operator graph of version {document.get('version')!r}; this Hemiola reads version {VERSION}"
        )
    try:
        return OpGraph(
            str(document["name"]),
            tuple(
                Tensor(str(name), _numbers(shape), str(dtype), int(size))
                for name, shape, dtype, size in document["tensors"]
            ),
            tuple(_operator_from_json(one) for one in document["operators"]),
            tuple(
                Gradient(str(name), int(tensor), int(size), _numbers(held))
                for name, tensor, size, held in document["gradients"]
            ),
            _numbers(document["results"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise FusionError(f"operator graph: a field is missing or has the wrong form ({error!r})") from None


def _operator_from_json(fields: dict[str, Any]) -> Operator:
    return Operator(
        str(fields["name"]),
        str(fields["kind"]),
        WorkKind(fields["work"]),
        StepPhase(fields["phase"]),
        _numbers(fields["inputs"]),
        _numbers(fields["outputs"]),
        str(fields["signature"]),
        float(fields["flops"]),
    )


def _numbers(values: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(value) for value in values)
