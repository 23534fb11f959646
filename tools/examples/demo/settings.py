"""The demo's settings: sizes, seeds, lengths."""

from __future__ import annotations

from dataclasses import dataclass

VOCABULARY = 256  # bytes


@dataclass(frozen=True)
class ModelSettings:
    """A decoder-only transformer."""

    width: int = 128
    heads: int = 4
    blocks: int = 4
    context: int = 64
    dropout: float = 0.1


@dataclass(frozen=True)
class TrainingSettings:
    """One run. Learning rate: linear warm-up, then a cosine down to a tenth."""

    steps: int = 1200
    batch: int = 16
    learning_rate: float = 3e-3
    warm_up: int = 100
    weight_decay: float = 0.1
    seed: int = 1234
    bf16: bool = False
    fp16: bool = False  # with a gradient scaler; not together with bf16
    # The number of steps in which the losses of both devices are compared, with the same random numbers.
    agreement_steps: int = 40
    # Timing: the number of pairs of blocks, one on each device, and of steps in a block, after one warm-up step.
    timed_pairs: int = 9
    timed_steps: int = 10
