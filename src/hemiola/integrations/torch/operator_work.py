"""What kind of work a node of a traced graph is, and the text by which equal work is known."""

from __future__ import annotations

import operator as python_operator
from typing import Any

import torch
from torch import fx

from hemiola.fusion.graph import WorkKind
from hemiola.integrations.torch.private_api import fuses_in_inductor

_aten = torch.ops.aten
_MATMULS = {_aten.mm, _aten.addmm, _aten.bmm, _aten.baddbmm, _aten.mv, _aten.addmv, _aten.dot}
_CONVOLUTIONS = {_aten.convolution, _aten.convolution_backward, _aten.mkldnn_rnn_layer}
_CREATORS = {_aten.full, _aten.scalar_tensor, _aten.arange, _aten.empty, torch.ops.prims.iota}
"""Make tensors out of nothing, always the same ones."""
_RESHAPES = {_aten.reshape, _aten._unsafe_view, _aten.lift_fresh_copy, _aten.detach, _aten._reshape_alias}
"""Views of contiguous memory that PyTorch does not mark as views."""


def is_free(node: fx.Node) -> bool:
    """No work of its own: a view, an element of a tuple, or a constant. Whoever reads it makes it again."""
    if node.target is python_operator.getitem:
        return True
    packet = getattr(node.target, "overloadpacket", None)
    return packet in _CREATORS or packet in _RESHAPES or bool(getattr(node.target, "is_view", False))


def work_of(node: fx.Node) -> WorkKind:
    """The kind of work of a node that is not free."""
    packet, tags = getattr(node.target, "overloadpacket", None), getattr(node.target, "tags", ())
    if torch.Tag.nondeterministic_seeded in tags:
        return WorkKind.RANDOM
    if packet in _MATMULS:
        return WorkKind.MATMUL
    if packet in _CONVOLUTIONS:
        return WorkKind.CONVOLUTION
    if torch.Tag.pointwise in tags:
        return WorkKind.POINTWISE
    if torch.Tag.reduction in tags:
        return WorkKind.REDUCTION
    return WorkKind.INDEXED if fuses_in_inductor(node.target) else WorkKind.OPAQUE


def signature_of(node: fx.Node) -> str:
    """Kind, shapes, strides, element types and constants of a node."""
    parts = [_text(argument) for argument in node.args]
    parts += [f"{name}={_text(value)}" for name, value in sorted(node.kwargs.items())]
    return f"{node.target}({', '.join(parts)})"


def _text(argument: Any) -> str:
    if isinstance(argument, fx.Node):
        return tensor_text(argument.meta["val"])
    if isinstance(argument, list | tuple):
        return f"[{', '.join(map(_text, argument))}]"
    return str(argument)


def tensor_text(value: Any) -> str:
    """``float32[4, 16; 16, 1]``: the element type, the shape and the strides."""
    if not isinstance(value, torch.Tensor):
        return str(value)
    shape, stride = ", ".join(map(str, value.shape)), ", ".join(map(str, value.stride()))
    return f"{str(value.dtype).removeprefix('torch.')}[{shape}; {stride}]"
