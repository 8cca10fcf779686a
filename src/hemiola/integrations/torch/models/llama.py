"""A language model as they are written today (Llama; full size as TinyLlama 1.1B): RMSNorm, rotary embedding, grouped queries and SwiGLU.

Everything but the products of matrices is written with elementary operators, so that without fusion each is a kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hemiola.integrations.torch.models.attention import hide_later_places, join_heads, split_heads
from hemiola.integrations.torch.models.training_step import (
    ModelSize,
    TrainingStep,
    draw_tokens,
    next_token_loss,
)

ROTARY_BASE = 10000.0
NORM_EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class LlamaShape:
    """What the sizes differ in."""

    batch: int
    length: int
    vocabulary: int
    width: int
    hidden: int
    num_heads: int
    num_key_heads: int
    """Each serves as many heads of queries."""
    num_layers: int


SHAPES = {
    ModelSize.SMALL: LlamaShape(4, 32, 256, 64, 176, 4, 2, 2),
    ModelSize.MEDIUM: LlamaShape(4, 128, 2000, 256, 704, 8, 4, 4),
    ModelSize.LARGE: LlamaShape(4, 256, 8000, 512, 1408, 8, 4, 6),
    ModelSize.FULL: LlamaShape(4, 2048, 32000, 2048, 5632, 32, 4, 22),
}


class RmsNorm(nn.Module):
    """Divides by the root mean square of the last dimension."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, places: Tensor) -> Tensor:
        """Of the same shape."""
        mean_square = (places * places).mean(-1, keepdim=True)
        return self.weight * (places * torch.rsqrt(mean_square + NORM_EPSILON))


def rotary_table(length: int, width: int) -> Tensor:
    """Cosines and sines by place and half of a head's width, (2, length, width / 2)."""
    rates = ROTARY_BASE ** (-torch.arange(0, width, 2, dtype=torch.float32) / width)
    angles = torch.arange(length, dtype=torch.float32)[:, None] * rates
    return torch.stack((torch.cos(angles), torch.sin(angles)))


def rotate(heads: Tensor, table: Tensor) -> Tensor:
    """Turns the two halves of every head by the angles of its place."""
    first, second = heads.chunk(2, dim=-1)
    cosine, sine = table[0], table[1]
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


class GroupedAttention(nn.Module):
    """Causal attention; several heads of queries share one of keys and values."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.num_heads, self.num_key_heads = shape.num_heads, shape.num_key_heads
        key_width = shape.width // shape.num_heads * shape.num_key_heads
        self.query = nn.Linear(shape.width, shape.width, bias=False)
        self.key = nn.Linear(shape.width, key_width, bias=False)
        self.value = nn.Linear(shape.width, key_width, bias=False)
        self.output = nn.Linear(shape.width, shape.width, bias=False)

    def forward(self, places: Tensor, table: Tensor) -> Tensor:
        """For every place a mixture of the values up to it."""
        times = self.num_heads // self.num_key_heads
        query = rotate(split_heads(self.query(places), self.num_heads), table)
        key = rotate(split_heads(self.key(places), self.num_key_heads), table)
        value = split_heads(self.value(places), self.num_key_heads)
        key, value = key.repeat_interleave(times, dim=1), value.repeat_interleave(times, dim=1)
        scores = hide_later_places(query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]))
        powers = torch.exp(scores - scores.amax(-1, keepdim=True))
        mixed = (powers / powers.sum(-1, keepdim=True)) @ value
        output: Tensor = self.output(join_heads(mixed))
        return output


class LlamaLayer(nn.Module):
    """Attention and SwiGLU, each after a norm and added to what came in."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.attention_norm, self.dense_norm = RmsNorm(shape.width), RmsNorm(shape.width)
        self.attention = GroupedAttention(shape)
        self.gate = nn.Linear(shape.width, shape.hidden, bias=False)
        self.up = nn.Linear(shape.width, shape.hidden, bias=False)
        self.down = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, places: Tensor, table: Tensor) -> Tensor:
        """The same places, having seen those before them."""
        places = places + self.attention(self.attention_norm(places), table)
        inner = self.dense_norm(places)
        gate = self.gate(inner)
        output: Tensor = places + self.down(gate * torch.sigmoid(gate) * self.up(inner))
        return output


class Llama(nn.Module):
    """Tokens, (batch, length), to scores of the next one."""

    table: Tensor

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        nn.init.normal_(self.embedding.weight, std=0.02)
        table = rotary_table(shape.length, shape.width // shape.num_heads)
        self.register_buffer("table", table, persistent=False)
        self.layers = nn.ModuleList(LlamaLayer(shape) for _ in range(shape.num_layers))
        self.norm = RmsNorm(shape.width)
        self.output = nn.Linear(shape.width, shape.vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of every token of the vocabulary at every place."""
        places = self.embedding(tokens)
        for layer in self.layers:
            places = layer(places, self.table)
        scores: Tensor = self.output(self.norm(places))
        return scores


def make_module(size: ModelSize) -> nn.Module:
    """With weights of the generator as it is."""
    return Llama(SHAPES[size])


def make_step(size: ModelSize) -> TrainingStep:
    """Next-token loss at every place."""
    shape = SHAPES[size]
    tokens = draw_tokens(shape.vocabulary, shape.batch, shape.length)
    return TrainingStep(make_module(size), next_token_loss, (tokens, tokens.roll(-1, 1)))
