"""Every private name of PyTorch that fusion uses, in one place; known to work with PyTorch 2.13."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
from torch import fx, nn


@contextmanager
def eager_random_numbers() -> Iterator[None]:
    """Random operators stay what they are in eager mode, so that compiled steps draw the same numbers.

    It holds while the decomposition table is selected, while a step is traced and while its parts are compiled.
    """
    from torch._inductor import config

    with config.patch(fallback_random=True):
        yield


def register_compiler_operators() -> None:
    """Make the operators and modules known that inductor's decompositions use without importing them: max pooling needs both."""
    import_module("torch._inductor.inductor_prims")
    import_module("torch._inductor.lowering")


def trace_joint_graph(
    wrapper: nn.Module, batch: Sequence[torch.Tensor]
) -> tuple[fx.GraphModule, Any]:  # the signature is a private class of PyTorch
    """Forward and backward of a module that returns ``(loss,)``, as one functional graph with its signature."""
    register_compiler_operators()
    from torch._functorch.aot_autograd import aot_export_module
    from torch._inductor.decomposition import select_decomp_table

    with eager_random_numbers():
        traced, signature = aot_export_module(
            wrapper, tuple(batch), trace_joint=True, output_loss_index=0, decompositions=select_decomp_table()
        )
    assert isinstance(traced, fx.GraphModule)
    return traced, signature


@contextmanager
def fake_tensors() -> Iterator[Callable[[torch.Tensor], torch.Tensor]]:
    """Tensors without data: gives the function that makes one of a real tensor."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        yield mode.from_tensor


def compile_graph(
    module: fx.GraphModule, example_inputs: Sequence[torch.Tensor]
) -> Callable[[list[Any]], Sequence[Any]]:
    """A functional graph, compiled by inductor for these inputs; the result takes a list, which it empties."""
    from torch._inductor.compile_fx import compile_fx_inner

    with eager_random_numbers(), torch.no_grad():
        compiled: Callable[[list[Any]], Sequence[Any]] = compile_fx_inner(module, list(example_inputs))
    return compiled


def propagate_shapes(module: fx.GraphModule, example_inputs: Sequence[torch.Tensor]) -> None:
    """Give every node of a graph the form of its value, which the compiler reads and a pickled graph has lost."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp

    with torch.no_grad():
        FakeTensorProp(module, FakeTensorMode()).propagate(*example_inputs)


def fuses_in_inductor(operator: Any) -> bool:
    """Whether inductor writes loops for an operator, which it can fuse with those of its neighbours."""
    from torch._inductor.lowering import fallbacks, lowerings

    return operator in lowerings and operator not in fallbacks


def count_flops(node: fx.Node) -> float:
    """Multiplications and additions of a product of matrices or a convolution; 0 for everything else."""
    from torch.utils.flop_counter import flop_registry

    packet = getattr(node.target, "overloadpacket", None)
    if packet not in flop_registry:
        return 0.0
    values = fx.node.map_arg((node.args, node.kwargs), lambda one: one.meta["val"])
    return float(flop_registry[packet](*values[0], **values[1], out_val=node.meta["val"]))


def is_data_dependent(error: BaseException) -> bool:
    """Whether tracing failed because the step asks for the value of a tensor."""
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    kinds = (DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode)
    return isinstance(error, kinds)


def after_backward(action: Callable[[], None]) -> None:
    """Called while a backward pass runs: do something when all of it has run."""
    torch.autograd.Variable._execution_engine.queue_callback(action)


def when_accumulated(parameter: torch.nn.Parameter, action: Callable[[torch.Tensor], None]) -> Any:
    """Do something whenever the gradient of a parameter is there; gives a handle that can be removed."""
    hook: Any = parameter.register_post_accumulate_grad_hook
    return hook(action)
