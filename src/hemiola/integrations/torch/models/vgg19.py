"""VGG19 (Simonyan and Zisserman, 2014): sixteen convolutions and three dense layers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hemiola.integrations.torch.models.training_step import ModelSize, TrainingStep, draw_images

CONVOLUTIONS = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))
"""Channels and number of the convolutions before each halving of the image."""
HALVINGS = 32


@dataclass(frozen=True, slots=True)
class VggShape:
    """What the sizes differ in."""

    batch: int
    image: int
    """Pixels on a side; a multiple of 32."""
    narrower: int
    """By how much the channels are divided."""
    hidden: int
    """Of the dense layers."""
    num_classes: int


SHAPES = {
    ModelSize.SMALL: VggShape(4, 32, 8, 128, 10),
    ModelSize.MEDIUM: VggShape(8, 64, 2, 512, 100),
    ModelSize.LARGE: VggShape(8, 64, 1, 1024, 1000),
    ModelSize.FULL: VggShape(32, 224, 1, 4096, 1000),
}


class Vgg19(nn.Module):
    """Images to scores of classes."""

    def __init__(self, shape: VggShape) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for wide, times in CONVOLUTIONS:
            for _ in range(times):
                layers += [nn.Conv2d(channels, wide // shape.narrower, 3, padding=1), nn.ReLU()]
                channels = wide // shape.narrower
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(channels * (shape.image // HALVINGS) ** 2, shape.hidden),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(shape.hidden, shape.hidden),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(shape.hidden, shape.num_classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Scores of every image."""
        scores: Tensor = self.classifier(torch.flatten(self.features(images), 1))
        return scores


def make_module(size: ModelSize) -> nn.Module:
    """With weights of the generator as it is."""
    return Vgg19(SHAPES[size])


def make_step(size: ModelSize) -> TrainingStep:
    """Cross-entropy over the classes of a batch of images."""
    shape = SHAPES[size]
    batch = draw_images(shape.batch, shape.image, shape.num_classes)
    return TrainingStep(make_module(size), nn.functional.cross_entropy, batch)
