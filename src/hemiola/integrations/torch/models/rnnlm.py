"""The recurrent language model of Zaremba et al. (2014, "large"): two layers of LSTM cells, unrolled, of elementary operators."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hemiola.integrations.torch.models.training_step import (
    ModelSize,
    TrainingStep,
    draw_tokens,
    next_token_loss,
)


@dataclass(frozen=True, slots=True)
class RnnlmShape:
    """What the sizes differ in."""

    batch: int
    length: int
    """Steps over which the cells are unrolled."""
    vocabulary: int
    width: int
    num_layers: int = 2
    dropout: float = 0.65


SHAPES = {
    ModelSize.SMALL: RnnlmShape(8, 8, 256, 64),
    ModelSize.MEDIUM: RnnlmShape(32, 16, 2000, 384),
    ModelSize.LARGE: RnnlmShape(32, 35, 4000, 650),
    ModelSize.FULL: RnnlmShape(20, 35, 10000, 1500),
}


class LstmCell(nn.Module):
    """One step of one layer; both products share one bias, as in the paper."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inputs = nn.Linear(width, 4 * width)
        self.hidden = nn.Linear(width, 4 * width, bias=False)

    def forward(self, inputs: Tensor, hidden: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """The new hidden state and memory."""
        gates = self.inputs(inputs) + self.hidden(hidden)
        taken, kept, shown, candidate = gates.chunk(4, dim=-1)
        memory = torch.sigmoid(kept) * memory + torch.sigmoid(taken) * torch.tanh(candidate)
        return torch.sigmoid(shown) * torch.tanh(memory), memory


class Rnnlm(nn.Module):
    """Tokens, (batch, length), to scores of the next one."""

    def __init__(self, shape: RnnlmShape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.cells = nn.ModuleList(LstmCell(shape.width) for _ in range(shape.num_layers))
        self.output = nn.Linear(shape.width, shape.vocabulary)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of every token of the vocabulary at every place."""
        places: list[Tensor] = list(self.dropout(self.embedding(tokens)).unbind(1))
        for cell in self.cells:
            hidden = memory = torch.zeros_like(places[0])
            for number, inputs in enumerate(places):
                hidden, memory = cell(inputs, hidden, memory)
                places[number] = self.dropout(hidden)
        scores: Tensor = self.output(torch.stack(places, dim=1))
        return scores


def make_module(size: ModelSize) -> nn.Module:
    """With weights of the generator as it is."""
    return Rnnlm(SHAPES[size])


def make_step(size: ModelSize) -> TrainingStep:
    """Next-token loss at every place."""
    shape = SHAPES[size]
    tokens = draw_tokens(shape.vocabulary, shape.batch, shape.length)
    return TrainingStep(make_module(size), next_token_loss, (tokens, tokens.roll(-1, 1)))
