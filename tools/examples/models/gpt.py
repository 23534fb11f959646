"""The demo's language model, on random bytes."""

from __future__ import annotations

import torch
from torch.nn import functional

from examples.demo.model import make_model
from examples.demo.settings import VOCABULARY, ModelSettings
from examples.models.case import Case, adamw_foreach


def token_loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy of logits (batch, context, vocabulary) against tokens (batch, context)."""
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def gpt(settings: ModelSettings, batch: int) -> Case:
    tokens = torch.randint(VOCABULARY, (batch, settings.context + 1))
    model = make_model(settings, seed=0)
    return Case(model, tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous(), token_loss, adamw_foreach)
