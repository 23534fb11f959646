"""The text: the source code of Python's own standard library, as bytes."""

from __future__ import annotations

import math
import pathlib
import sysconfig
from collections import Counter
from dataclasses import dataclass

import torch

_NOT_THE_LIBRARY = {"site-packages", "dist-packages", "__pycache__", "test", "tests", "idle_test"}


@dataclass(frozen=True)
class Corpus:
    """One-dimensional uint8 tensors on the CPU, and the unigram entropy of `train` in nats per byte."""

    train: torch.Tensor
    held_out: torch.Tensor
    files: int
    unigram_entropy: float


def unigram_entropy(text: bytes) -> float:
    """Entropy in nats of the distribution of single bytes: the loss of the best model without context."""
    total = len(text)
    return -sum(n / total * math.log(n / total) for n in Counter(text).values())


def read_corpus(library: pathlib.Path | None = None) -> Corpus:
    """Reads all *.py below `library` (default: this Python's standard library) in the order of their names.

    Every twentieth file is held out. FileNotFoundError: there are fewer than 20 files, for example because the
    interpreter keeps its library in an archive.
    """
    top = library or pathlib.Path(sysconfig.get_path("stdlib"))
    paths = sorted(p for p in top.rglob("*.py") if not _NOT_THE_LIBRARY & set(p.relative_to(top).parts) and p.is_file())
    if len(paths) < 20:
        raise FileNotFoundError(
            f"{top} holds {len(paths)} Python files and the demo trains on them; run it with a Python whose standard "
            "library is installed as source files"
        )
    held_out = b"".join(p.read_bytes() for p in paths[19::20])
    train = b"".join(p.read_bytes() for i, p in enumerate(paths) if i % 20 != 19)
    return Corpus(
        train=torch.frombuffer(bytearray(train), dtype=torch.uint8),
        held_out=torch.frombuffer(bytearray(held_out), dtype=torch.uint8),
        files=len(paths),
        unigram_entropy=unigram_entropy(train),
    )


class Batches:
    """An endless sequence of (input, target) pairs, int64 (batch, context) on the CPU, determined by the seed."""

    def __init__(self, text: torch.Tensor, batch: int, context: int, seed: int) -> None:
        self._text, self._batch, self._context = text, batch, context
        self._random = torch.Generator().manual_seed(seed)
        self._span = torch.arange(context + 1)

    def next(self) -> tuple[torch.Tensor, torch.Tensor]:
        starts = torch.randint(len(self._text) - self._context, (self._batch, 1), generator=self._random)
        window = self._text[starts + self._span].long()
        return window[:, :-1].contiguous(), window[:, 1:].contiguous()
