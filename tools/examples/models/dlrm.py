"""A click predictor of the shape of DLRM: bags of embeddings, their products with the dense features, two MLPs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional

from examples.models.case import Case


@dataclass(frozen=True)
class DlrmSettings:
    rows: int = 50
    """Rows of every table of embeddings."""
    width: int = 8
    dense: int = 5
    """Dense features of a sample."""
    longest_bag: int = 4
    """The largest number of indices in a bag; the smallest is 0."""
    batch: int = 16


# The reduction of each table's bags. The last table takes a weight for each index.
MODES = ("sum", "mean", "max", "sum")


class Sample(NamedTuple):
    dense: torch.Tensor
    """float32 (batch, dense)."""
    indices: list[torch.Tensor]
    """int64 (indices of all bags,), one for each table."""
    offsets: list[torch.Tensor]
    """int64 (batch,): where each bag begins."""
    weights: torch.Tensor
    """float32, for the indices of the last table."""


def _layers(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for size, out in itertools.pairwise(sizes):
        layers += [nn.Linear(size, out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class ClickPredictor(nn.Module):
    """Maps samples to logits (batch,). Naumov et al. 2019, arXiv:1906.00091."""

    pairs: torch.Tensor

    def __init__(self, settings: DlrmSettings) -> None:
        super().__init__()
        self.bottom = _layers(settings.dense, 2 * settings.width, settings.width)
        self.tables = nn.ModuleList(nn.EmbeddingBag(settings.rows, settings.width, mode=mode) for mode in MODES)
        features = 1 + len(MODES)
        self.register_buffer("pairs", torch.tril_indices(features, features, -1), persistent=False)
        self.top = _layers(settings.width + self.pairs.shape[1], 2 * settings.width, 1)

    def forward(self, sample: Sample) -> torch.Tensor:
        dense = self.bottom(sample.dense)
        weights = [None] * (len(MODES) - 1) + [sample.weights]
        bags = [
            table(indices, offsets, weight)
            for table, indices, offsets, weight in zip(
                self.tables, sample.indices, sample.offsets, weights, strict=True
            )
        ]
        features = torch.stack([dense, *bags], dim=1)
        products = torch.bmm(features, features.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        logits: torch.Tensor = self.top(torch.cat([dense, products], dim=1)).squeeze(1)
        return logits


def dlrm(settings: DlrmSettings) -> Case:
    indices, offsets = [], []
    for _ in MODES:
        lengths = torch.randint(settings.longest_bag + 1, (settings.batch,))
        indices.append(torch.randint(settings.rows, (int(lengths.sum()),)))
        offsets.append(lengths.cumsum(0) - lengths)
    inputs = Sample(torch.randn(settings.batch, settings.dense), indices, offsets, torch.rand(indices[-1].shape))
    clicks = torch.randint(2, (settings.batch,)).float()
    return Case(ClickPredictor(settings), inputs, clicks, functional.binary_cross_entropy_with_logits)
