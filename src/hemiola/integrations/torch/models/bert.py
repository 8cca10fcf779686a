"""BERT (Devlin et al., 2018, "base"): an encoder with the heads of its pre-training, masked words and next sentence."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hemiola.integrations.torch.models.attention import Attention
from hemiola.integrations.torch.models.training_step import ModelSize, TrainingStep, draw_tokens

MASK_EVERY = 7
"""One token of so many is to be guessed, about the paper's 15 %."""
NOT_GUESSED = -100
"""A target that does not count."""


@dataclass(frozen=True, slots=True)
class BertShape:
    """What the sizes differ in."""

    batch: int
    length: int
    vocabulary: int
    width: int
    num_heads: int
    num_layers: int
    max_length: int
    """Rows of the embedding of places."""
    dropout: float = 0.1


SHAPES = {
    ModelSize.SMALL: BertShape(4, 32, 256, 64, 4, 2, 64),
    ModelSize.MEDIUM: BertShape(8, 64, 4000, 256, 4, 4, 128),
    ModelSize.LARGE: BertShape(8, 128, 8000, 512, 8, 6, 256),
    ModelSize.FULL: BertShape(32, 128, 30522, 768, 12, 12, 512),
}


class BertLayer(nn.Module):
    """Attention and a dense part four times as wide, each with its sum and norm."""

    def __init__(self, shape: BertShape) -> None:
        super().__init__()
        self.attention = Attention(shape.width, shape.num_heads, shape.dropout)
        self.attention_norm, self.dense_norm = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.dense = nn.Sequential(
            nn.Linear(shape.width, 4 * shape.width), nn.GELU(), nn.Linear(4 * shape.width, shape.width)
        )
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, places: Tensor) -> Tensor:
        """The same places, having seen each other."""
        places = self.attention_norm(places + self.dropout(self.attention(places, places)))
        output: Tensor = self.dense_norm(places + self.dropout(self.dense(places)))
        return output


class BertEmbedding(nn.Module):
    """The sum of the embeddings of token, place and sentence."""

    def __init__(self, shape: BertShape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.places = nn.Embedding(shape.max_length, shape.width)
        self.sentences = nn.Embedding(2, shape.width)
        for table in (self.tokens, self.places, self.sentences):
            nn.init.normal_(table.weight, std=0.02)
        self.norm = nn.LayerNorm(shape.width)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, tokens: Tensor, sentences: Tensor) -> Tensor:
        """Of both, (batch, length)."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        joined = self.tokens(tokens) + self.places(places) + self.sentences(sentences)
        output: Tensor = self.dropout(self.norm(joined))
        return output


class Bert(nn.Module):
    """Tokens and the numbers of their sentences, (batch, 2, length), to scores: of the next sentence in the first two columns
    of place 0, and of every token at every place after it."""

    def __init__(self, shape: BertShape) -> None:
        super().__init__()
        self.embedding = BertEmbedding(shape)
        self.layers = nn.Sequential(*(BertLayer(shape) for _ in range(shape.num_layers)))
        self.pooler = nn.Sequential(nn.Linear(shape.width, shape.width), nn.Tanh())
        self.next_sentence = nn.Linear(shape.width, 2)
        self.transform = nn.Sequential(
            nn.Linear(shape.width, shape.width), nn.GELU(), nn.LayerNorm(shape.width)
        )
        self.words = nn.Linear(shape.width, shape.vocabulary)
        self.words.weight = self.embedding.tokens.weight

    def forward(self, inputs: Tensor) -> Tensor:
        """Both heads in one tensor, (batch, 1 + length, vocabulary)."""
        places = self.layers(self.embedding(inputs[:, 0], inputs[:, 1]))
        words = self.words(self.transform(places))
        following = self.next_sentence(self.pooler(places[:, 0]))
        padded = nn.functional.pad(following, (0, words.shape[-1] - following.shape[-1]))
        return torch.cat((padded[:, None], words), dim=1)


def pretraining_loss(scores: Tensor, targets: Tensor) -> Tensor:
    """The sum of both heads' cross-entropies; targets are laid out like the scores."""
    following = nn.functional.cross_entropy(scores[:, 0, :2], targets[:, 0])
    words = nn.functional.cross_entropy(
        scores[:, 1:].flatten(0, 1), targets[:, 1:].flatten(), ignore_index=NOT_GUESSED
    )
    return following + words


def make_module(size: ModelSize) -> nn.Module:
    """With weights of the generator as it is."""
    return Bert(SHAPES[size])


def make_step(size: ModelSize) -> TrainingStep:
    """Every seventh token is to be guessed; the second half is the second sentence."""
    shape = SHAPES[size]
    tokens = draw_tokens(shape.vocabulary, shape.batch, shape.length)
    places = torch.arange(shape.length)
    sentences = (places >= shape.length // 2).long().expand_as(tokens)
    words = torch.where(places % MASK_EVERY == 0, tokens, torch.full_like(tokens, NOT_GUESSED))
    targets = torch.cat((draw_tokens(2, shape.batch, 1), words), dim=1)
    return TrainingStep(
        make_module(size), pretraining_loss, (torch.stack((tokens, sentences), dim=1), targets)
    )
