"""ResNet50 (He et al., 2015): bottlenecks of three convolutions with batch norm; the stride is in the 3x3 one, as in torchvision."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hemiola.integrations.torch.models.training_step import ModelSize, TrainingStep, draw_images

EXPANSION = 4
"""The last convolution of a bottleneck has so many times the channels of the others."""


@dataclass(frozen=True, slots=True)
class ResnetShape:
    """What the sizes differ in."""

    batch: int
    image: int
    """Pixels on a side."""
    channels: int
    """Of the first stage; each further stage has twice as many."""
    bottlenecks: tuple[int, int, int, int]
    """Per stage."""
    num_classes: int


SHAPES = {
    ModelSize.SMALL: ResnetShape(4, 32, 8, (2, 2, 2, 2), 10),
    ModelSize.MEDIUM: ResnetShape(8, 64, 32, (3, 4, 6, 3), 100),
    ModelSize.LARGE: ResnetShape(8, 96, 64, (3, 4, 6, 3), 1000),
    ModelSize.FULL: ResnetShape(32, 224, 64, (3, 4, 6, 3), 1000),
}


def convolve(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """A convolution without bias, and batch norm."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False), nn.BatchNorm2d(outputs)
    )


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1, and the way around them."""

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        outputs = channels * EXPANSION
        self.reduce = convolve(inputs, channels, 1)
        self.middle = convolve(channels, channels, 3, stride)
        self.expand = convolve(channels, outputs, 1)
        same = stride == 1 and inputs == outputs
        self.around = nn.Identity() if same else convolve(inputs, outputs, 1, stride)

    def forward(self, images: Tensor) -> Tensor:
        """The sum of both ways."""
        inner = torch.relu(self.middle(torch.relu(self.reduce(images))))
        return torch.relu(self.expand(inner) + self.around(images))


class Resnet50(nn.Module):
    """Images to scores of classes."""

    def __init__(self, shape: ResnetShape) -> None:
        super().__init__()
        self.stem = convolve(3, shape.channels, 7, 2)
        self.pool = nn.MaxPool2d(3, 2, padding=1)
        stages: list[nn.Module] = []
        inputs = shape.channels
        for stage, times in enumerate(shape.bottlenecks):
            channels = shape.channels << stage
            for number in range(times):
                stages.append(Bottleneck(inputs, channels, 2 if stage and not number else 1))
                inputs = channels * EXPANSION
        self.stages = nn.Sequential(*stages)
        self.classifier = nn.Linear(inputs, shape.num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Scores of every image."""
        features = self.stages(self.pool(torch.relu(self.stem(images))))
        scores: Tensor = self.classifier(features.mean((2, 3)))
        return scores


def make_module(size: ModelSize) -> nn.Module:
    """With weights of the generator as it is."""
    return Resnet50(SHAPES[size])


def make_step(size: ModelSize) -> TrainingStep:
    """Cross-entropy over the classes of a batch of images."""
    shape = SHAPES[size]
    batch = draw_images(shape.batch, shape.image, shape.num_classes)
    return TrainingStep(make_module(size), nn.functional.cross_entropy, batch)
