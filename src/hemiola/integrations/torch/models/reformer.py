"""The Reformer (Kitaev et al., 2020; full size as its model of enwik8): attention by locality-sensitive hashing, two residual streams.

The two streams are those of the paper's reversible layers. Their values are kept for the backward pass instead of being
computed again from the layer above: the step is the same to rounding, and needs no autograd function of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hemiola.integrations.torch.models.attention import join_heads, split_heads
from hemiola.integrations.torch.models.training_step import (
    ModelSize,
    TrainingStep,
    draw_tokens,
    next_token_loss,
)

SELF_SCORE, HIDDEN_SCORE = -1e3, -1e9
"""A place sees itself only where it sees nothing else, and later places and other buckets never."""


@dataclass(frozen=True, slots=True)
class ReformerShape:
    """What the sizes differ in."""

    batch: int
    length: int
    vocabulary: int
    width: int
    hidden: int
    num_heads: int
    num_layers: int
    num_hashes: int
    chunk: int
    """Places that attend to each other and to those of the chunk before; buckets are about half as large."""
    dropout: float = 0.1

    @property
    def num_buckets(self) -> int:
        """Of one round of hashing; even."""
        return max(2, self.length // self.chunk * 2)


SHAPES = {
    ModelSize.SMALL: ReformerShape(2, 64, 256, 64, 256, 2, 2, 2, 16),
    ModelSize.MEDIUM: ReformerShape(2, 256, 258, 256, 1024, 4, 4, 2, 32),
    ModelSize.LARGE: ReformerShape(2, 512, 258, 512, 2048, 4, 6, 4, 64),
    ModelSize.FULL: ReformerShape(1, 65536, 258, 1024, 4096, 8, 12, 4, 64),
}


class HashedAttention(nn.Module):
    """Causal attention within buckets of alike queries, over several rounds of hashing; keys are the normed queries."""

    rotations: Tensor

    def __init__(self, shape: ReformerShape) -> None:
        super().__init__()
        self.shape = shape
        self.query = nn.Linear(shape.width, shape.width, bias=False)
        self.value = nn.Linear(shape.width, shape.width, bias=False)
        self.output = nn.Linear(shape.width, shape.width, bias=False)
        rotations = torch.randn(shape.width // shape.num_heads, shape.num_hashes, shape.num_buckets // 2)
        self.register_buffer("rotations", rotations, persistent=False)

    def forward(self, places: Tensor) -> Tensor:
        """For every place a mixture of the values of its buckets up to it."""
        query = split_heads(self.query(places), self.shape.num_heads)
        value = split_heads(self.value(places), self.shape.num_heads)
        buckets = self.hash(query)
        order = self.sort(buckets)
        mixed, weights = self.attend(query, value, buckets, order)
        output: Tensor = self.output(join_heads(merge_rounds(mixed, weights, order)))
        return output

    def hash(self, query: Tensor) -> Tensor:
        """The bucket of every place, (batch, heads, hashes, length): the nearest of random directions and their opposites."""
        turned = torch.einsum("bhld,dnr->bhnlr", query.detach(), self.rotations)
        return torch.cat((turned, -turned), dim=-1).argmax(-1)

    def sort(self, buckets: Tensor) -> Tensor:
        """Places by bucket, those of one bucket in their order."""
        places = torch.arange(self.shape.length, device=buckets.device)
        return (buckets * self.shape.length + places).argsort(-1)

    def attend(self, query: Tensor, value: Tensor, buckets: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
        """In sorted order, of every round: mixtures, and the logarithms of the sums of their weights."""
        sorted_query, sorted_value = pick(query, order), pick(value, order)
        norm = (sorted_query * sorted_query).sum(-1, keepdim=True)
        key = sorted_query * torch.rsqrt(norm + 1e-6)
        query_places = self.cut(order)
        query_buckets = self.cut(buckets.gather(-1, order))
        scores = self.cut(sorted_query, 2) @ with_chunk_before(self.cut(key, 2), 3).transpose(-2, -1)
        key_places = with_chunk_before(query_places, 3)[..., None, :]
        key_buckets = with_chunk_before(query_buckets, 3)[..., None, :]
        query_places, query_buckets = query_places[..., None], query_buckets[..., None]
        hidden = (key_places > query_places) | (key_buckets != query_buckets)
        scores = scores.masked_fill(hidden, HIDDEN_SCORE)
        scores = scores.masked_fill(key_places == query_places, SELF_SCORE)
        weights = scores.logsumexp(-1, keepdim=True)
        mixed = torch.exp(scores - weights) @ with_chunk_before(self.cut(sorted_value, 2), 3)
        return mixed.flatten(3, 4), weights.flatten(3, 4)

    def cut(self, values: Tensor, dims_from_end: int = 1) -> Tensor:
        """The length, which is the last dimension or the one before it, as chunks."""
        return torch.unflatten(values, -dims_from_end, (-1, self.shape.chunk))


def pick(values: Tensor, order: Tensor) -> Tensor:
    """(batch, heads, length, width) in the order of every round: (batch, heads, hashes, length, width)."""
    index = order[..., None].expand(*order.shape, values.shape[-1])
    return values[:, :, None].expand(*index.shape).gather(-2, index)


def with_chunk_before(chunks: Tensor, dim: int) -> Tensor:
    """Every chunk after the one before it; the chunks are counted in ``dim``, their places in the next dimension."""
    return torch.cat((chunks.roll(1, dim), chunks), dim=dim + 1)


def merge_rounds(mixed: Tensor, weights: Tensor, order: Tensor) -> Tensor:
    """Back in the order of places, every round weighed by the sum of its weights."""
    back = order.argsort(-1)[..., None]
    mixed = mixed.gather(-2, back.expand_as(mixed))
    shares = torch.softmax(weights.gather(-2, back), dim=2)
    return (mixed * shares).sum(2)


class ReformerLayer(nn.Module):
    """Attention from one stream into the other, and a dense part back."""

    def __init__(self, shape: ReformerShape) -> None:
        super().__init__()
        self.attention_norm, self.dense_norm = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.attention = HashedAttention(shape)
        self.dense = nn.Sequential(
            nn.Linear(shape.width, shape.hidden),
            nn.ReLU(),
            nn.Dropout(shape.dropout),
            nn.Linear(shape.hidden, shape.width),
        )
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Both streams, each having taken from the other."""
        first = first + self.dropout(self.attention(self.attention_norm(second)))
        return first, second + self.dropout(self.dense(self.dense_norm(first)))


class Reformer(nn.Module):
    """Tokens, (batch, length), to scores of the next one."""

    def __init__(self, shape: ReformerShape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        rows, quarter = axial_rows(shape.length), shape.width // 4
        self.rows = nn.Parameter(torch.randn(rows, 1, quarter) * 0.02)
        self.columns = nn.Parameter(torch.randn(1, shape.length // rows, shape.width - quarter) * 0.02)
        self.layers = nn.ModuleList(ReformerLayer(shape) for _ in range(shape.num_layers))
        self.norm = nn.LayerNorm(2 * shape.width)
        self.output = nn.Linear(2 * shape.width, shape.vocabulary)

    def encode_places(self) -> Tensor:
        """Axial: the vector of a place's row beside that of its column."""
        rows, columns = self.rows.shape[0], self.columns.shape[1]
        parts = self.rows.expand(rows, columns, -1), self.columns.expand(rows, columns, -1)
        return torch.cat(parts, dim=-1).flatten(0, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of every token of the vocabulary at every place."""
        first = second = self.embedding(tokens) + self.encode_places()
        for layer in self.layers:
            first, second = layer(first, second)
        scores: Tensor = self.output(self.norm(torch.cat((first, second), dim=-1)))
        return scores


def axial_rows(length: int) -> int:
    """The largest power of two of which the square is at most the length; it divides the lengths used here."""
    return 1 << ((length.bit_length() - 1) // 2)


def make_module(size: ModelSize) -> nn.Module:
    """With weights of the generator as it is."""
    return Reformer(SHAPES[size])


def make_step(size: ModelSize) -> TrainingStep:
    """Next-token loss at every place."""
    shape = SHAPES[size]
    tokens = draw_tokens(shape.vocabulary, shape.batch, shape.length)
    return TrainingStep(make_module(size), next_token_loss, (tokens, tokens.roll(-1, 1)))
