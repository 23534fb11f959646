"""Text from the demo's language model, token by token, with a cache of keys and values."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

from examples.demo.model import Attention, Block, LanguageModel

Pick = Callable[[torch.Tensor], torch.Tensor]
"""Chooses a token, int64 (batch, 1), by its logits (batch, vocabulary)."""


def greedy(logits: torch.Tensor) -> torch.Tensor:
    return logits.argmax(dim=-1, keepdim=True)


def sampled(candidates: int, temperature: float = 1.0) -> Pick:
    """Draws one of the likeliest `candidates` tokens, by their probabilities."""

    def pick(logits: torch.Tensor) -> torch.Tensor:
        values, tokens = logits.topk(candidates)
        return tokens.gather(-1, torch.multinomial(functional.softmax(values / temperature, dim=-1), 1))

    return pick


class Cache:
    """The keys and values of one attention layer, (batch, heads, places, width of a head) each."""

    def __init__(self) -> None:
        self.keys: torch.Tensor | None = None
        self.values: torch.Tensor | None = None

    def extend(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Adds the keys and values of new places, and returns those of all places."""
        if self.keys is not None and self.values is not None:
            keys, values = torch.cat([self.keys, keys], dim=2), torch.cat([self.values, values], dim=2)
        self.keys, self.values = keys, values
        return keys, values


def _attend(attention: Attention, x: torch.Tensor, cache: Cache) -> torch.Tensor:
    batch, places, width = x.shape
    q, k, v = (
        part.view(batch, places, attention.heads, width // attention.heads).transpose(1, 2)
        for part in attention.qkv(x).split(width, dim=2)
    )
    first = cache.keys is None
    keys, values = cache.extend(k, v)
    # Only the first call has several places; a single new place may attend to all before it.
    y = functional.scaled_dot_product_attention(q, keys, values, is_causal=first)
    result: torch.Tensor = attention.out(y.transpose(1, 2).reshape(batch, places, width))
    return result


def next_logits(model: LanguageModel, tokens: torch.Tensor, caches: list[Cache]) -> torch.Tensor:
    """The logits (batch, vocabulary) after new tokens: all of the prompt at first, then one (batch, 1) at a time."""
    seen = 0 if caches[0].keys is None else caches[0].keys.shape[2]
    positions = torch.arange(seen, seen + tokens.shape[1], device=tokens.device)
    x = model.token(tokens) + model.position(positions)
    for block, cache in zip(model.blocks, caches, strict=True):
        assert isinstance(block, Block)
        x = x + _attend(block.attention, block.norm1(x), cache)
        x = x + block.down(functional.gelu(block.up(block.norm2(x))))
    logits: torch.Tensor = model.head(model.norm(x[:, -1]))
    return logits


@torch.no_grad()
def generate(model: LanguageModel, prompt: torch.Tensor, count: int, pick: Pick) -> torch.Tensor:
    """The prompt, int64 (batch, places), with `count` more tokens. All must fit into the model's context.

    Dropout is not applied.
    """
    caches = [Cache() for _ in model.blocks]
    tokens = prompt
    new = prompt
    for _ in range(count):
        new = pick(next_logits(model, new, caches))
        tokens = torch.cat([tokens, new], dim=1)
    return tokens
