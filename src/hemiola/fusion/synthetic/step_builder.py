"""StepBuilder: records a forward pass of elementary operators and writes the backward pass after it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hemiola.fusion.graph import Gradient, Operator, OpGraph, StepPhase, Tensor, WorkKind

ELEMENT_BYTES = 4
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Call:
    """An operator of the forward pass, with what its backward pass needs."""

    kind: str
    work: WorkKind
    inputs: tuple[int, ...]
    output: int
    flops: float


class StepBuilder:
    """Tensors are numbers; every method gives that of its output."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._tensors: list[Tensor] = []
        self._operators: list[Operator] = []
        self._calls: list[_Call] = []
        self._parameters: list[int] = []
        self._differentiable: set[int] = set()

    def given(self, name: str, shape: Shape) -> int:
        """A tensor of the batch."""
        return self._tensor(name, shape)

    def parameter(self, name: str, shape: Shape) -> int:
        """A tensor that has a gradient."""
        tensor = self._tensor(name, shape)
        self._parameters.append(tensor)
        self._differentiable.add(tensor)
        return tensor

    def matmul(self, left: int, right: int) -> int:
        """The product of the last two dimensions; dimensions before them belong to the left factor."""
        *outer, rows, inner = self.shape(left)
        columns = self.shape(right)[-1]
        flops = 2.0 * math.prod(outer) * rows * inner * columns
        return self._call("matmul", WorkKind.MATMUL, (left, right), (*outer, rows, columns), flops)

    def convolution(self, image: int, weight: int, shape: Shape) -> int:
        """A weight of (out, in, height, width) over an image, which gives (batch, out, height, width)."""
        flops = 2.0 * math.prod(shape) * math.prod(self.shape(weight)[1:])
        return self._call("convolution", WorkKind.CONVOLUTION, (image, weight), shape, flops)

    def pointwise(self, kind: str, *inputs: int) -> int:
        """Elements from elements; smaller inputs are broadcast to the first."""
        shape = self.shape(inputs[0])
        return self._call(kind, WorkKind.POINTWISE, inputs, shape, float(math.prod(shape)))

    def reduction(self, kind: str, source: int, shape: Shape) -> int:
        """A sum, mean or maximum."""
        return self._call(kind, WorkKind.REDUCTION, (source,), shape, float(math.prod(self.shape(source))))

    def lookup(self, table: int, indices: int, shape: Shape) -> int:
        """Rows of a table."""
        return self._call("embedding", WorkKind.INDEXED, (table, indices), shape, float(math.prod(shape)))

    def opaque(self, kind: str, source: int, shape: Shape | None = None) -> int:
        """A kernel of its own, such as a sort."""
        shape = shape or self.shape(source)
        return self._call(kind, WorkKind.OPAQUE, (source,), shape, 8.0 * math.prod(shape))

    def finish(self, loss: int) -> OpGraph:
        """The whole step: what was recorded, its backward pass, and the gradients in the order of parameters."""
        gradients: dict[int, list[int]] = {loss: [self._emit_backward("ones", (loss,), self.shape(loss))]}
        for call in reversed(self._calls):
            if call.output in gradients:
                self._differentiate(call, self._sum(gradients.pop(call.output)), gradients)
        found = tuple(
            Gradient(self._tensors[one].name, total, self._tensors[one].num_bytes, (one,))
            for one in self._parameters
            if one in gradients
            for total in (self._sum(gradients[one]),)
        )
        return OpGraph(self.name, tuple(self._tensors), tuple(self._operators), found, (loss,))

    def shape(self, tensor: int) -> Shape:
        """Of a tensor."""
        return self._tensors[tensor].shape

    def _tensor(self, name: str, shape: Shape) -> int:
        self._tensors.append(Tensor(name, tuple(shape), "float32", ELEMENT_BYTES * math.prod(shape)))
        return len(self._tensors) - 1

    def _emit(
        self, kind: str, work: WorkKind, phase: StepPhase, inputs: Sequence[int], shape: Shape, flops: float
    ) -> int:
        name = f"{kind}_{len(self._operators)}"
        output = self._tensor(name, shape)
        shapes = ",".join("x".join(map(str, self.shape(one))) for one in (*inputs, output))
        self._operators.append(
            Operator(name, kind, work, phase, tuple(inputs), (output,), f"{kind}({shapes})", flops)
        )
        return output

    def _call(self, kind: str, work: WorkKind, inputs: tuple[int, ...], shape: Shape, flops: float) -> int:
        output = self._emit(kind, work, StepPhase.FORWARD, inputs, shape, flops)
        self._calls.append(_Call(kind, work, inputs, output, flops))
        if self._differentiable.intersection(inputs):
            self._differentiable.add(output)
        return output

    def _emit_backward(
        self,
        kind: str,
        inputs: Sequence[int],
        shape: Shape,
        *,
        work: WorkKind = WorkKind.POINTWISE,
        flops: float = 0.0,
    ) -> int:
        return self._emit(kind, work, StepPhase.BACKWARD, inputs, shape, flops or float(math.prod(shape)))

    def _sum(self, parts: list[int]) -> int:
        """The gradients that reach a tensor on several ways, added up."""
        while len(parts) > 1:
            parts[:2] = [self._emit_backward("add", parts[:2], self.shape(parts[0]))]
        return parts[0]

    def _differentiate(self, call: _Call, above: int, gradients: dict[int, list[int]]) -> None:
        for place, one in enumerate(call.inputs):
            if one in self._differentiable:
                below = self._gradient(call, place, one, above)
                gradients.setdefault(one, []).append(below)

    def _gradient(self, call: _Call, place: int, one: int, above: int) -> int:
        """Of one input of a call: products as products, broadcast inputs by a sum, everything else element by element."""
        shape = self.shape(one)
        others = [other for number, other in enumerate(call.inputs) if number != place]
        kind = f"{call.kind}_backward"
        if call.work.is_kernel_of_its_own or call.work is WorkKind.INDEXED:
            return self._emit_backward(kind, (above, *others), shape, work=call.work, flops=call.flops)
        if call.work is WorkKind.REDUCTION:
            return self._emit_backward(kind, (above, one), shape)
        if math.prod(shape) < math.prod(self.shape(call.output)):
            product = self._emit_backward(kind, (above, *others), self.shape(call.output))
            return self._emit_backward("sum", (product,), shape, work=WorkKind.REDUCTION)
        saved = (one,) if not others else tuple(others)
        return above if call.kind == "add" else self._emit_backward(kind, (above, *saved), shape)
