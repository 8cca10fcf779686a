"""Random operator graphs for the tests of the estimator, and the same graphs with everything renumbered."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import strategies as st

from hemiola.fusion.graph import Gradient, Operator, OpGraph, StepPhase, Tensor, WorkKind
from hemiola.fusion.operator_times import OperatorTime, OperatorTimes

KINDS = {
    "aten.add.Tensor": WorkKind.POINTWISE,
    "aten.exp.default": WorkKind.POINTWISE,
    "aten.sum.dim_IntList": WorkKind.REDUCTION,
    "aten.mm.default": WorkKind.MATMUL,
    "aten.gather.default": WorkKind.INDEXED,
    "aten.native_dropout.default": WorkKind.RANDOM,
}
LENGTHS = (16, 1 << 12, 1 << 18)


def random_graph(seed: int, num_operators: int = 24, *, with_random: bool = True) -> OpGraph:
    """Operators read one or two of the latest tensors; the last one is the gradient of the only parameter."""
    randomness = random.Random(seed)
    tensors = [Tensor("parameter", (16,), "float32", 64), Tensor("batch", (16,), "float32", 64)]
    operators = []
    kinds = [kind for kind in KINDS if with_random or KINDS[kind] is not WorkKind.RANDOM]
    for number in range(num_operators):
        kind = randomness.choice(kinds)
        recent = range(max(0, len(tensors) - 5), len(tensors))
        inputs = tuple(dict.fromkeys(randomness.choice(recent) for _ in range(randomness.randint(1, 2))))
        length = randomness.choice(LENGTHS)
        tensors.append(Tensor(f"t{number}", (length,), "float32", 4 * length))
        read = ", ".join(f"float32[{tensors[one].shape[0]}; 1]" for one in inputs)
        operators.append(
            Operator(
                f"o{number}",
                kind,
                KINDS[kind],
                StepPhase.FORWARD,
                inputs,
                (len(tensors) - 1,),
                f"{kind}({read} -> {length})",
            )
        )
    gradient = Gradient("parameter", len(tensors) - 1, tensors[-1].num_bytes)
    return OpGraph("random", tuple(tensors), tuple(operators), (gradient,), ())


def operator_times(graph: OpGraph) -> OperatorTimes:
    """Seconds that grow with the bytes."""
    times = {}
    for one in graph.operators:
        num_bytes = sum(graph.tensors[tensor].num_bytes for tensor in (*one.inputs, *one.outputs))
        times[one.signature] = OperatorTime(4e-6 + num_bytes * 1e-10, 0.01)
    return OperatorTimes(times)


def renumbered(graph: OpGraph, seed: int) -> tuple[OpGraph, dict[int, int]]:
    """The same step: operators in another order in which they can run, tensors renumbered, all renamed; and the new number of each operator."""
    randomness = random.Random(seed)
    order = another_order(graph, randomness)
    places = list(range(len(graph.tensors)))
    randomness.shuffle(places)
    tensors = [graph.tensors[0]] * len(places)
    for old, new in enumerate(places):
        tensors[new] = replace(graph.tensors[old], name=f"x{new}")
    operators = tuple(
        replace(
            graph.operators[old],
            name=f"y{new}",
            inputs=tuple(places[one] for one in graph.operators[old].inputs),
            outputs=tuple(places[one] for one in graph.operators[old].outputs),
        )
        for new, old in enumerate(order)
    )
    gradients = tuple(replace(one, tensor=places[one.tensor]) for one in graph.gradients)
    results = tuple(places[one] for one in graph.results)
    return OpGraph("again", tuple(tensors), operators, gradients, results), {
        old: new for new, old in enumerate(order)
    }


def another_order(graph: OpGraph, randomness: random.Random) -> list[int]:
    """A random order in which the operators can run."""
    waiting = {one: len(before) for one, before in enumerate(graph.predecessors)}
    ready = [one for one, number in waiting.items() if not number]
    order = []
    while ready:
        order.append(ready.pop(randomness.randrange(len(ready))))
        for reader in graph.successors[order[-1]]:
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    return order


seeds = st.integers(0, 1 << 20)
