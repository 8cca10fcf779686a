"""A training step by its name: one of the models that are shipped, or a function of the user's own file."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hemiola.errors import FusionError
from hemiola.integrations.torch.models.library import MODELS, make_step
from hemiola.integrations.torch.models.training_step import ModelSize, TrainingStep


def load_step(name: str, size: ModelSize = ModelSize.MEDIUM) -> TrainingStep:
    """``transformer``, or ``path/to/script.py:make_step``, whose function gives the module, the loss function and a batch."""
    if name in MODELS:
        return make_step(name, size)
    path, colon, function = name.rpartition(":")
    if not colon or not path.endswith(".py"):
        raise FusionError(
            f"{name!r} is no model; known are {', '.join(MODELS)}, and your own is path/to/script.py:make_step"
        )
    return _checked(name, _call(Path(path), function))


def _call(path: Path, function: str) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FusionError(f"{path}: there is no such Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    make = getattr(module, function, None)
    if not callable(make):
        raise FusionError(f"{path}: has no function {function!r}")
    return make()


def _checked(name: str, found: Any) -> TrainingStep:
    try:
        module, loss, (inputs, targets) = found
    except (TypeError, ValueError):
        raise FusionError(
            f"{name}: gave {type(found).__name__}; expected the module, the loss function and a batch (inputs, targets)"
        ) from None
    if not isinstance(module, nn.Module) or not callable(loss) or not isinstance(inputs, torch.Tensor):
        raise FusionError(
            f"{name}: gave {type(module).__name__}, {type(loss).__name__} and {type(inputs).__name__}; expected an nn.Module, a loss function"
            " and a batch (inputs, targets) of tensors"
        )
    return TrainingStep(module, loss, (inputs, targets))
