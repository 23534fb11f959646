"""A language model of nn.LSTM or nn.GRU layers between an embedding and a linear head."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from examples.models.case import Case, adamw_foreach
from examples.models.gpt import token_loss


@dataclass(frozen=True)
class LstmSettings:
    vocabulary: int = 32
    width: int = 16
    layers: int = 2
    context: int = 8
    batch: int = 4
    gru: bool = False


class LstmLanguageModel(nn.Module):
    """Maps tokens, int64 (batch, context), to logits (batch, context, vocabulary)."""

    def __init__(self, settings: LstmSettings) -> None:
        super().__init__()
        self.embedding = nn.Embedding(settings.vocabulary, settings.width)
        layers = nn.GRU if settings.gru else nn.LSTM
        self.lstm = layers(settings.width, settings.width, settings.layers, batch_first=True)
        self.head = nn.Linear(settings.width, settings.vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.lstm(self.embedding(tokens))[0])
        return logits


def lstm(settings: LstmSettings) -> Case:
    tokens = torch.randint(settings.vocabulary, (settings.batch, settings.context + 1))
    model = LstmLanguageModel(settings)
    return Case(model, tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous(), token_loss, adamw_foreach)
