"""``untraced``: a class decorator that keeps the methods of a class out of graphs that torch.compile captures.

A process group of PyTorch in C++ is opaque to the capture: a graph ends before the call and another begins after it. The
methods of ours are Python, which the capture would follow. ``torch.compiler.disable`` prevents that, but importing it
takes seconds and every call would take longer. So methods get the same marks here: one on the function, for calls from
captured code, and one on its code object, for calls from code that is not captured itself; the second one also holds for
everything that the method calls. Neither is looked at unless torch.compile runs. These marks are private to PyTorch; this
is the only file that uses them.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, TypeVar

import torch

Class = TypeVar("Class", bound=type[Any])

_eval_frame: Any = torch._C._dynamo.eval_frame


def untraced(cls: Class) -> Class:
    """Mark every method of a class."""
    for member in vars(cls).values():
        function = getattr(member, "__func__", member)
        function = getattr(function, "fget", function)
        if isinstance(function, FunctionType):
            _mark(function)
    return cls


def _mark(function: Any) -> None:
    skip = _eval_frame._FrameAction.SKIP
    function._torchdynamo_disable = True
    function._torchdynamo_disable_msg = "a call of backend hemiola is not captured"
    function._torchdynamo_disable_recursive = True
    _eval_frame.set_code_exec_strategy(function.__code__, _eval_frame._FrameExecStrategy(skip, skip))
