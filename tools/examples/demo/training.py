"""One training step and the state that it advances, the same code for every device."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from examples.demo.corpus import Batches, Corpus
from examples.demo.model import LanguageModel, make_model
from examples.demo.settings import VOCABULARY, ModelSettings, TrainingSettings


def learning_rate(step: int, settings: TrainingSettings) -> float:
    """Linear warm-up, then a cosine from the full rate to a tenth of it at the last step."""
    if step < settings.warm_up:
        return settings.learning_rate * (step + 1) / settings.warm_up
    done = min(1.0, (step - settings.warm_up) / max(1, settings.steps - settings.warm_up))
    return settings.learning_rate * (0.55 + 0.45 * math.cos(math.pi * done))


def synchronize(device: torch.device) -> None:
    """Waits until the device has done all its work. The CPU needs no wait."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def gradient_scaler(device: torch.device, enabled: bool) -> torch.amp.GradScaler:
    """For tb its own class, whose steps do not wait for the device; for other devices PyTorch's."""
    if device.type == "tb":
        scaler: torch.amp.GradScaler = torch.tb.amp.GradScaler(enabled=enabled)  # type: ignore[attr-defined]
        return scaler
    return torch.amp.GradScaler(device.type, enabled=enabled)


class Trainer:
    """A model, its optimizer and its batches on one device. Two trainers with the same seed get the same batches."""

    def __init__(
        self,
        device: torch.device,
        corpus: Corpus,
        model_settings: ModelSettings,
        settings: TrainingSettings,
        wrap: Callable[[LanguageModel], Any] = lambda model: model,
    ) -> None:
        """Arguments:
        wrap: makes the module that is trained out of the model on its device: itself, unless ranks share the work.
        """
        self.device = device
        self.settings = settings
        self.model = wrap(make_model(model_settings, settings.seed).to(device))
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        self.batches = Batches(corpus.train, settings.batch, model_settings.context, settings.seed)
        self.scaler = gradient_scaler(device, settings.fp16)
        self.done = 0

    @property
    def tokens_per_step(self) -> int:
        context: int = self.model.settings.context
        return self.settings.batch * context

    def loss(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy in nats per byte."""
        low = torch.float16 if self.settings.fp16 else torch.bfloat16
        with torch.autocast(self.device.type, dtype=low, enabled=self.settings.bf16 or self.settings.fp16):
            logits = self.model(tokens)
            return functional.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))

    def step(self) -> torch.Tensor:
        """One step; returns the loss without waiting for the device."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.done, self.settings)
        tokens, targets = self.batches.next()
        loss = self.loss(tokens.to(self.device), targets.to(self.device))
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.done += 1
        return loss.detach()

    def evaluate(self, text: torch.Tensor, batches: int) -> float:
        """Mean loss over `batches` random batches of `text`, without dropout."""
        source = Batches(text, self.settings.batch, self.model.settings.context, seed=0)
        self.model.eval()
        with torch.no_grad():
            losses = [
                self.loss(x.to(self.device), y.to(self.device)).item()
                for x, y in (source.next() for _ in range(batches))
            ]
        self.model.train()
        return sum(losses) / len(losses)


def generate(trainer: Trainer, prompt: bytes, length: int, temperature: float, seed: int) -> bytes:
    """Continues `prompt` by `length` bytes. The device computes the logits, from which the CPU draws each byte."""
    random = torch.Generator().manual_seed(seed)
    text = bytearray(prompt)
    trainer.model.eval()
    with torch.no_grad():
        for _ in range(length):
            window = torch.tensor([list(text[-trainer.model.settings.context :])])
            logits = trainer.model(window.to(trainer.device))[0, -1].cpu().float()
            text.append(int(torch.multinomial((logits / temperature).softmax(0), 1, generator=random)))
    trainer.model.train()
    return bytes(text)
