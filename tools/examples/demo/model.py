"""The model: token and position embeddings, pre-norm blocks of causal attention and a GELU MLP."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from examples.demo.settings import VOCABULARY, ModelSettings

# Returns a mask of zeros and ones of this shape, float32 on the CPU, with this probability of ones.
MaskSource = Callable[[torch.Size, float], torch.Tensor]


class Dropout(nn.Module):
    """F.dropout, unless it is given a source of masks (see philox_masks in comparison.py)."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability
        self.mask_source: MaskSource | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.mask_source is None or not self.training or self.probability == 0.0:
            return functional.dropout(x, self.probability, self.training)
        kept = 1.0 - self.probability
        return x * self.mask_source(x.shape, kept).to(x.dtype) * (1.0 / kept)


class Attention(nn.Module):
    """Causal self-attention; input and result have the shape (batch, context, width)."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.heads = settings.heads
        self.qkv = nn.Linear(settings.width, 3 * settings.width)
        self.out = nn.Linear(settings.width, settings.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, context, width = x.shape
        q, k, v = (
            part.view(batch, context, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        result: torch.Tensor = self.out(y.transpose(1, 2).reshape(batch, context, width))
        return result


class Block(nn.Module):
    """Attention and MLP, each on the normed input and added to it."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(settings.width)
        self.attention = Attention(settings)
        self.dropout1 = Dropout(settings.dropout)
        self.norm2 = nn.LayerNorm(settings.width)
        self.up = nn.Linear(settings.width, 4 * settings.width)
        self.down = nn.Linear(4 * settings.width, settings.width)
        self.dropout2 = Dropout(settings.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.dropout1(self.attention(self.norm1(x)))
        x = x + self.dropout2(self.down(functional.gelu(self.up(self.norm2(x)))))
        return x


class LanguageModel(nn.Module):
    """Maps bytes, int64 (batch, context), to logits (batch, context, 256)."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.settings = settings
        self.token = nn.Embedding(VOCABULARY, settings.width)
        self.position = nn.Embedding(settings.context, settings.width)
        self.dropout = Dropout(settings.dropout)
        self.blocks = nn.ModuleList(Block(settings) for _ in range(settings.blocks))
        self.norm = nn.LayerNorm(settings.width)
        self.head = nn.Linear(settings.width, VOCABULARY)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                # As in GPT-2, projections into the residual stream start smaller the more of them are added to it.
                residual = name.endswith(("attention.out.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / (2 * settings.blocks) ** 0.5 if residual else 0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.token(tokens) + self.position(positions))
        for block in self.blocks:
            x = block(x)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits

    def set_mask_source(self, source: MaskSource | None) -> None:
        """Makes all dropout layers take their masks from `source`, in the order in which they run."""
        for module in self.modules():
            if isinstance(module, Dropout):
                module.mask_source = source


def make_model(settings: ModelSettings, seed: int) -> LanguageModel:
    """A model on the CPU whose weights depend on the seed alone; move it with .to(device)."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return LanguageModel(settings)
