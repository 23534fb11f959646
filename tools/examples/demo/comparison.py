"""Compares two devices: losses for equal random numbers, and interleaved timing.

docs/demo.md explains why the comparison is fair.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from examples.demo.model import MaskSource
from examples.demo.training import Trainer, synchronize


@dataclass(frozen=True)
class Timing:
    """Medians over blocks in milliseconds per step, and the median of the ratios of paired blocks."""

    first_ms: float
    second_ms: float
    ratio: float


def losses(trainer: Trainer, steps: int, masks: MaskSource | None = None) -> list[float]:
    """The losses of the next `steps` steps, with dropout masks from `masks` if given."""
    if masks is None:
        return [trainer.step().item() for _ in range(steps)]
    trainer.model.set_mask_source(masks)
    values = [trainer.step().item() for _ in range(steps)]
    trainer.model.set_mask_source(None)
    return values


def agree(first: list[float], second: list[float], relative: float = 1e-3) -> bool:
    """Whether there are equally many losses and each pair differs by less than `relative`, by default three digits."""
    return len(first) == len(second) and all(
        abs(a - b) < relative * max(abs(a), abs(b)) for a, b in zip(first, second, strict=True)
    )


def _block_ms(trainer: Trainer, steps: int) -> float:
    trainer.step()  # wakes this device's threads, which slept during the other device's block
    synchronize(trainer.device)
    started = time.perf_counter()
    for _ in range(steps):
        trainer.step()
    synchronize(trainer.device)
    return (time.perf_counter() - started) * 1000 / steps


def interleaved(
    first: Trainer, second: Trainer, pairs: int, steps: int, progress: Callable[[], object] = lambda: None
) -> Timing:
    """Alternates blocks of `steps` steps between the trainers. Every other pair runs in the opposite order."""
    firsts, seconds = [], []
    for pair in range(pairs):
        if pair % 2 == 0:
            firsts.append(_block_ms(first, steps))
            seconds.append(_block_ms(second, steps))
        else:
            seconds.append(_block_ms(second, steps))
            firsts.append(_block_ms(first, steps))
        progress()
    ratios = [a / b for a, b in zip(firsts, seconds, strict=True)]
    return Timing(statistics.median(firsts), statistics.median(seconds), statistics.median(ratios))


def philox_masks(seed: int) -> MaskSource:
    """The masks that dropout on tb draws after torch.manual_seed(seed), made on the CPU by tb_generator."""
    import tb_generator

    generator = tb_generator.Generator(seed)

    def source(shape: torch.Size, kept: float) -> torch.Tensor:
        mask = torch.empty(shape)
        generator.bernoulli(mask.numpy(), kept)
        return mask

    return source
