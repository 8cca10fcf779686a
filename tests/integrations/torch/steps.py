"""Small training steps with what goes wrong in silence: tied parameters, dropout, batch norm, tuples and views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]
Loss = Callable[[Any, Any], Tensor]

_Module: Any = nn.Module
"""Without its types: where PyTorch is not installed there are none."""


class TiedStep(_Module):  # type: ignore[misc]
    """An embedding whose weights are also the last layer's, a layer of attention with dropout, and batch norm."""

    def __init__(self, width: int = 16, words: int = 20, dropout: float = 0.1) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.attention = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout, batch_first=True)
        self.norm = nn.BatchNorm1d(width)
        self.out = nn.Linear(width, words, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, words: Tensor) -> Tensor:
        hidden = self.attention(self.embedding(words))
        hidden = self.norm(hidden.transpose(1, 2)).transpose(1, 2)
        found: Tensor = self.out(hidden)
        return found


def word_loss(found: Tensor, words: Tensor) -> Tensor:
    """Cross entropy of every word."""
    return nn.functional.cross_entropy(found.flatten(0, 1), words.flatten())


def tied_step(seed: int = 0, dropout: float = 0.1) -> tuple[nn.Module, Loss, Batch]:
    """The module above, its loss and a batch."""
    torch.manual_seed(seed)
    batch = (torch.randint(20, (4, 6)), torch.randint(20, (4, 6)))
    return TiedStep(dropout=dropout), word_loss, batch
