"""A decoder of the shape of Llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU, no biases."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from examples.models.case import Case, adamw_foreach
from examples.models.gpt import token_loss


@dataclass(frozen=True)
class LlamaSettings:
    vocabulary: int = 32
    width: int = 32
    heads: int = 4
    key_heads: int = 2
    """Heads of keys and values; each serves heads / key_heads heads of queries."""
    hidden: int = 48
    blocks: int = 2
    context: int = 8
    batch: int = 4


def rotary_angles(context: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines, (context, size), for heads of `size` (Su et al. 2021, arXiv:2104.09864)."""
    frequencies = 10000.0 ** (-torch.arange(0, size, 2) / size)
    angles = torch.outer(torch.arange(context).float(), frequencies).repeat(1, 2)
    return angles.cos(), angles.sin()


def rotate(x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """Turns the pairs (i, i + size / 2) of the last dimension."""
    first, second = x.chunk(2, dim=-1)
    return x * cosines + torch.cat([-second, first], dim=-1) * sines


class Attention(nn.Module):
    def __init__(self, settings: LlamaSettings) -> None:
        super().__init__()
        self.size = settings.width // settings.heads
        narrow = settings.key_heads * self.size
        self.query = nn.Linear(settings.width, settings.width, bias=False)
        self.key = nn.Linear(settings.width, narrow, bias=False)
        self.value = nn.Linear(settings.width, narrow, bias=False)
        self.out = nn.Linear(settings.width, settings.width, bias=False)

    def forward(self, x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            part.unflatten(2, (-1, self.size)).transpose(1, 2) for part in (self.query(x), self.key(x), self.value(x))
        )
        q, k = rotate(q, cosines, sines), rotate(k, cosines, sines)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        result: torch.Tensor = self.out(y.transpose(1, 2).flatten(2))
        return result


class Block(nn.Module):
    def __init__(self, settings: LlamaSettings) -> None:
        super().__init__()
        self.norm1 = nn.RMSNorm(settings.width, eps=1e-5)
        self.attention = Attention(settings)
        self.norm2 = nn.RMSNorm(settings.width, eps=1e-5)
        self.gate = nn.Linear(settings.width, settings.hidden, bias=False)
        self.up = nn.Linear(settings.width, settings.hidden, bias=False)
        self.down = nn.Linear(settings.hidden, settings.width, bias=False)

    def forward(self, x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x), cosines, sines)
        y = self.norm2(x)
        result: torch.Tensor = x + self.down(functional.silu(self.gate(y)) * self.up(y))
        return result


class Decoder(nn.Module):
    """Maps tokens, int64 (batch, context), to logits (batch, context, vocabulary)."""

    cosines: torch.Tensor
    sines: torch.Tensor

    def __init__(self, settings: LlamaSettings) -> None:
        super().__init__()
        self.embedding = nn.Embedding(settings.vocabulary, settings.width)
        self.blocks = nn.ModuleList(Block(settings) for _ in range(settings.blocks))
        self.norm = nn.RMSNorm(settings.width, eps=1e-5)
        self.head = nn.Linear(settings.width, settings.vocabulary, bias=False)
        cosines, sines = rotary_angles(settings.context, settings.width // settings.heads)
        self.register_buffer("cosines", cosines, persistent=False)
        self.register_buffer("sines", sines, persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cosines, self.sines)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits


def llama(settings: LlamaSettings) -> Case:
    tokens = torch.randint(settings.vocabulary, (settings.batch, settings.context + 1))
    return Case(Decoder(settings), tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous(), token_loss, adamw_foreach)
