"""The Transformer (Vaswani et al., 2017, "base"): encoder and decoder, norms after the sums, one embedding for both sides and the output."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hemiola.integrations.torch.models.attention import Attention
from hemiola.integrations.torch.models.training_step import (
    ModelSize,
    TrainingStep,
    draw_tokens,
    next_token_loss,
)


@dataclass(frozen=True, slots=True)
class TransformerShape:
    """What the sizes differ in."""

    batch: int
    length: int
    vocabulary: int
    width: int
    hidden: int
    num_heads: int
    num_layers: int
    """Of the encoder, and as many of the decoder."""
    dropout: float = 0.1


SHAPES = {
    ModelSize.SMALL: TransformerShape(4, 32, 256, 64, 256, 4, 2),
    ModelSize.MEDIUM: TransformerShape(8, 64, 2000, 256, 1024, 4, 2),
    ModelSize.LARGE: TransformerShape(8, 128, 8000, 384, 1536, 6, 4),
    ModelSize.FULL: TransformerShape(32, 256, 37000, 512, 2048, 8, 6),
}


class EncoderLayer(nn.Module):
    """Attention and a dense part, each with its sum and norm."""

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.attention = Attention(shape.width, shape.num_heads, shape.dropout)
        self.dense = make_dense(shape)
        self.attention_norm, self.dense_norm = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, places: Tensor) -> Tensor:
        """The same places, having seen each other."""
        places = self.attention_norm(places + self.dropout(self.attention(places, places)))
        output: Tensor = self.dense_norm(places + self.dropout(self.dense(places)))
        return output


class DecoderLayer(nn.Module):
    """Causal attention, attention to what was encoded, and a dense part."""

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.own = Attention(shape.width, shape.num_heads, shape.dropout, causal=True)
        self.cross = Attention(shape.width, shape.num_heads, shape.dropout)
        self.dense = make_dense(shape)
        self.own_norm, self.cross_norm = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.dense_norm = nn.LayerNorm(shape.width)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, places: Tensor, memory: Tensor) -> Tensor:
        """The same places, having seen those before them and the memory."""
        places = self.own_norm(places + self.dropout(self.own(places, places)))
        places = self.cross_norm(places + self.dropout(self.cross(places, memory)))
        output: Tensor = self.dense_norm(places + self.dropout(self.dense(places)))
        return output


def make_dense(shape: TransformerShape) -> nn.Sequential:
    """Two dense layers with ReLU between them."""
    return nn.Sequential(
        nn.Linear(shape.width, shape.hidden), nn.ReLU(), nn.Linear(shape.hidden, shape.width)
    )


def sinusoids(length: int, width: int) -> Tensor:
    """The paper's encoding of places: sines and cosines of geometric wavelengths."""
    places = torch.arange(length, dtype=torch.float32)[:, None]
    rates = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * (-math.log(10000.0) / width))
    return torch.stack((torch.sin(places * rates), torch.cos(places * rates)), dim=-1).flatten(-2)


class Transformer(nn.Module):
    """Tokens of both sides, (batch, 2, length), to scores of the next token on the second."""

    places: Tensor

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        nn.init.normal_(self.embedding.weight, std=shape.width**-0.5)
        self.register_buffer("places", sinusoids(shape.length, shape.width), persistent=False)
        self.encoder = nn.ModuleList(EncoderLayer(shape) for _ in range(shape.num_layers))
        self.decoder = nn.ModuleList(DecoderLayer(shape) for _ in range(shape.num_layers))
        self.output = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.output.weight = self.embedding.weight
        self.dropout = nn.Dropout(shape.dropout)

    def embed(self, tokens: Tensor) -> Tensor:
        """Scaled embeddings plus the encoding of places."""
        scaled = self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim)
        output: Tensor = self.dropout(scaled + self.places)
        return output

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of every token of the vocabulary at every place of the second side."""
        memory, places = self.embed(tokens[:, 0]), self.embed(tokens[:, 1])
        for layer in self.encoder:
            memory = layer(memory)
        for layer in self.decoder:
            places = layer(places, memory)
        scores: Tensor = self.output(places)
        return scores


def make_module(size: ModelSize) -> nn.Module:
    """With weights of the generator as it is."""
    return Transformer(SHAPES[size])


def make_step(size: ModelSize) -> TrainingStep:
    """Next-token loss of the second side."""
    shape = SHAPES[size]
    tokens = draw_tokens(shape.vocabulary, shape.batch, 2, shape.length)
    targets = tokens[:, 1].roll(-1, 1)
    return TrainingStep(make_module(size), next_token_loss, (tokens, targets))
