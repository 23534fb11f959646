"""Training steps on lazy tensors, tb's backend against PyTorch's own (TSBackendImpl, on the CPU).

python -m benchmarks.compile.lazy

A process can have only one lazy backend, so each backend has a process. The two run blocks in turn, with one thread
each and AdamW. A block of steps ends when the last loss is read.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
import torch._lazy
from torch import nn

AIM = 0.5
BACKENDS = ("tb", "ts")
# A variable of PyTorch that disables a step of tracing. Tracing then takes half the time, and batch normalisation fails
# on both backends.
META_REFERENCE = "TORCH_DISABLE_FUNCTIONALIZATION_META_REFERENCE"


def _mlp() -> tuple[nn.Module, torch.Tensor]:
    layers = [nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)]
    return nn.Sequential(*layers), torch.randn(16, 32)


def _convolutional() -> tuple[nn.Module, torch.Tensor]:
    first = [nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 256, 10)]
    return nn.Sequential(*first, *second), torch.randn(4, 3, 32, 32)


def _encoder() -> tuple[nn.Module, torch.Tensor]:
    return nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0), torch.randn(4, 16, 64)


MODELS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {
    "MLP": _mlp,
    "CNN": _convolutional,
    "encoder": _encoder,
}


def _serve(backend: str, name: str, steps: int) -> None:
    """Runs a block for each line of stdin, and prints the microseconds of a step and the last loss."""
    if backend == "ts":
        import torch._lazy.ts_backend as ts

        ts.init()  # type: ignore[no-untyped-call]
    else:
        from tb_compile import lazy

        lazy.init()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, batch = MODELS[name]()
    model, batch = model.to("lazy"), batch.to("lazy")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = model(batch).square().mean()
        torch.autograd.backward(loss)
        optimizer.step()
        torch._lazy.mark_step()
        return loss

    for _ in range(6):
        step().item()
    for _ in sys.stdin:
        begin = time.perf_counter()
        for _ in range(steps):
            loss = step()
        value = loss.item()
        print((time.perf_counter() - begin) / steps * 1e6, value, flush=True)


def measure(name: str, rounds: int, steps: int, env: dict[str, str]) -> tuple[float, float, float]:
    """Microseconds of a step with tb's and with PyTorch's backend, and the median of their ratios."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.compile.lazy"]
    command += ["--steps", str(steps), "--only", name, "--serve"]
    running = [
        subprocess.Popen(
            [*command, backend], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **env}
        )
        for backend in BACKENDS
    ]
    times: list[list[float]] = [[], []]
    for number in range(rounds):
        losses = []
        for i in (0, 1) if number % 2 == 0 else (1, 0):
            asked, answers = running[i].stdin, running[i].stdout
            assert asked is not None
            assert answers is not None
            asked.write("\n")
            asked.flush()
            microseconds, loss = map(float, answers.readline().split())
            times[i].append(microseconds)
            losses.append(loss)
        if abs(losses[0] - losses[1]) > 1e-3 * abs(losses[1]) + 1e-6:
            raise SystemExit(f"{name}: the backends do not give the same losses, losses {losses}")
    for process in running:
        process.communicate()
    ratio = statistics.median(one / other for one, other in zip(*times, strict=True))
    return statistics.median(times[0]), statistics.median(times[1]), ratio


def main() -> int:
    parser = argparse.ArgumentParser(prog="nox -s bench-compile -- --lazy", description=__doc__)
    parser.add_argument("--only", choices=list(MODELS), help="one of the models")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--steps", type=int, default=20, help="in a block")
    parser.add_argument("--serve", choices=BACKENDS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        _serve(asked.serve, asked.only, asked.steps)
        return 0
    print("| a training step on lazy tensors | tb, us | TSBackendImpl, us | ratio |\n| --- | --- | --- | --- |")
    missed = []
    for env, remark in (({}, ""), ({META_REFERENCE: "1"}, ", without meta reference")):
        for name in [asked.only] if asked.only else MODELS:
            ours, theirs, ratio = measure(name, asked.rounds, asked.steps, env)
            print(f"| {name}{remark} | {ours:.0f} | {theirs:.0f} | {ratio:.2f} |", flush=True)
            if ratio > AIM:
                missed.append(f"{name}{remark}")
    print(f"aim {AIM}" + (f"; not met by {', '.join(missed)}" if missed else ", met by all"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
