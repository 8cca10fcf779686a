"""TrainingStep: a module, its loss and one batch; and the sizes in which every model comes."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

import torch
from torch import Tensor, nn

Loss = Callable[[Tensor, Tensor], Tensor]
"""Of the module's outputs and the targets."""


class ModelSize(StrEnum):
    """How large a model is; its layers are those of the paper in every size, their number and widths are not."""

    SMALL = "small"
    """A step takes tens of milliseconds on one core."""
    MEDIUM = "medium"
    """At least 10 MB of gradients; a step takes up to about a second on one core."""
    LARGE = "large"
    """Some seconds."""
    FULL = "full"
    """As published."""


class TrainingStep(NamedTuple):
    """What `hemiola fuse` captures."""

    module: nn.Module
    loss: Loss
    batch: tuple[Tensor, Tensor]
    """Inputs and targets."""


SEED = 20209
"""Weights, inputs and targets are the same in every process."""


def seeded() -> torch.Generator:
    """For the batch; the weights are drawn by `torch.manual_seed` of the same number."""
    return torch.Generator().manual_seed(SEED)


def draw_tokens(num_tokens: int, *shape: int) -> Tensor:
    """Tokens of a vocabulary, uniformly."""
    return torch.randint(num_tokens, shape, generator=seeded())


def draw_images(num_images: int, image: int, num_classes: int) -> tuple[Tensor, Tensor]:
    """Noise of three colours, and a class for each."""
    random = seeded()
    images = torch.randn(num_images, 3, image, image, generator=random)
    return images, torch.randint(num_classes, (num_images,), generator=random)


def next_token_loss(scores: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of the scores at every place; both tensors may have any number of leading dimensions."""
    return nn.functional.cross_entropy(scores.flatten(0, -2), targets.flatten())
