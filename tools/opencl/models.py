"""Trains models on the device tb beside stock CPU: python -m opencl.models [NAME...].

Each model is trained 20 steps from the same weights and batches. The status is 1 if a loss differs by more than 1e-4 of
it, or if an operator fell back to the CPU. The last figure is the time of a step on tb in those of stock CPU: the
median of interleaved steps behind the compared ones.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch
from examples.demo.settings import ModelSettings
from examples.models.case import Case, Training
from examples.models.convolutional import ImageSettings, resnet18
from examples.models.gpt import gpt
from examples.models.lstm import LstmSettings, lstm
from examples.models.unet import UnetSettings, unet
from examples.models.vit import VitSettings, vit

STEPS = 20
TOLERANCE = 1e-4
ROUNDS = 10  # of timed steps

MODELS: dict[str, Callable[[], Case]] = {
    "gpt": lambda: gpt(ModelSettings(width=32, heads=2, blocks=2, context=16, dropout=0.0), batch=4),
    "lstm": lambda: lstm(LstmSettings()),
    "vit": lambda: vit(VitSettings()),
    # On smaller images batch norm magnifies rounding errors: stock CPU's losses on one and two threads differ by 1e-2.
    "resnet18": lambda: resnet18(ImageSettings(image=64, batch=8)),
    "unet": lambda: unet(UnetSettings()),
}


def trained(name: str, device: str) -> tuple[Training, list[float]]:
    """The training after STEPS steps, and the losses of these."""
    torch.manual_seed(3)
    training = Training(MODELS[name](), torch.device(device))
    return training, [training.step().item() for _ in range(STEPS)]


def seconds(training: Training) -> float:
    """The time of one step, until its loss is on the host."""
    start = time.perf_counter()
    training.step().item()
    return time.perf_counter() - start


def check(name: str) -> bool:
    """Prints the model's line. Returns whether its losses agree and nothing fell back."""
    torch.tb.reset_fallbacks()  # type: ignore[attr-defined]
    (on_tb, found), (on_cpu, expected) = trained(name, "tb"), trained(name, "cpu")
    worst = max(abs(a - b) / abs(b) for a, b in zip(found, expected, strict=True))
    fallen = [row.operator for row in torch.tb.fallbacks()]  # type: ignore[attr-defined]
    ratio = statistics.median(seconds(on_tb) / seconds(on_cpu) for _ in range(ROUNDS))
    good = worst <= TOLERANCE and not fallen and found[-1] < found[0]
    losses = f"loss {found[0]:.4f} to {found[-1]:.4f}, greatest difference {worst:.1e}"
    verdict = "" if good else ": WRONG"
    print(f"{name}: {losses}, fallbacks {fallen or 'none'}, {ratio:.1f} times stock CPU's step{verdict}")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m opencl.models", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MODELS)}; all by default")
    names = parser.parse_args().names or list(MODELS)
    if unknown := [name for name in names if name not in MODELS]:
        parser.error(f"no model is called {', '.join(unknown)}: there are {', '.join(MODELS)}")
    wrong = [name for name in names if not check(name)]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
