"""The table of the models: a name to its step in a size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn

from hemiola.errors import FusionError
from hemiola.integrations.torch.models import bert, llama, reformer, resnet50, rnnlm, transformer, vgg19
from hemiola.integrations.torch.models.training_step import SEED, ModelSize, TrainingStep


@dataclass(frozen=True, slots=True)
class ModelRecipe:
    """How a model is made."""

    make_module: Callable[[ModelSize], nn.Module]
    """Without a batch: on the meta device it costs nothing, whatever the size."""
    make_step: Callable[[ModelSize], TrainingStep]


MODELS: Mapping[str, ModelRecipe] = {
    "vgg19": ModelRecipe(vgg19.make_module, vgg19.make_step),
    "resnet50": ModelRecipe(resnet50.make_module, resnet50.make_step),
    "transformer": ModelRecipe(transformer.make_module, transformer.make_step),
    "rnnlm": ModelRecipe(rnnlm.make_module, rnnlm.make_step),
    "bert": ModelRecipe(bert.make_module, bert.make_step),
    "reformer": ModelRecipe(reformer.make_module, reformer.make_step),
    "llama": ModelRecipe(llama.make_module, llama.make_step),
}


def make_step(name: str, size: ModelSize = ModelSize.MEDIUM) -> TrainingStep:
    """The same weights and batch in every process; the caller's generator stays as it is."""
    recipe = MODELS.get(name)
    if recipe is None:
        raise FusionError(f"there is no model {name!r}; known are {', '.join(MODELS)}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        return recipe.make_step(size)
