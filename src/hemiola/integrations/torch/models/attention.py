"""Attention of several heads, written with products of matrices and a softmax, as the models of these papers were."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def split_heads(values: Tensor, num_heads: int) -> Tensor:
    """(batch, length, width) to (batch, heads, length, width of a head)."""
    return torch.unflatten(values, -1, (num_heads, -1)).transpose(1, 2)


def join_heads(values: Tensor) -> Tensor:
    """The inverse of `split_heads`."""
    return values.transpose(1, 2).flatten(-2)


def hide_later_places(scores: Tensor) -> Tensor:
    """The scores of (…, queries, keys), where no query sees keys after its own place."""
    queries, keys = scores.shape[-2:]
    places = torch.arange(keys, device=scores.device)
    return scores.masked_fill(places > places[:queries, None], float("-inf"))


class Attention(nn.Module):
    """Queries from one sequence, keys and values from the same or another one."""

    def __init__(self, width: int, num_heads: int, dropout: float, *, causal: bool = False) -> None:
        super().__init__()
        self.num_heads, self.causal = num_heads, causal
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.output = nn.Linear(width, width), nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, places: Tensor, memory: Tensor) -> Tensor:
        """For every place a mixture of the values of the memory."""
        query = split_heads(self.query(places), self.num_heads)
        key = split_heads(self.key(memory), self.num_heads)
        value = split_heads(self.value(memory), self.num_heads)
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        if self.causal:
            scores = hide_later_places(scores)
        mixed = self.dropout(scores.softmax(-1)) @ value
        output: Tensor = self.output(join_heads(mixed))
        return output
