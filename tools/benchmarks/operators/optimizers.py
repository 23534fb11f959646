"""The optimizer's step alone: `python -m benchmarks.operators.optimizers` in tools.

AdamW on lists (`foreach=True`) over the parameters of some of the benchmark's models, on tb and on stock cpu,
interleaved, at the default thread count and at one thread. Prints medians; the last column is tb to stock.
"""

from __future__ import annotations

import torch

from benchmarks.interleave import Call, Plan, compare
from benchmarks.operators.measure import subjects
from benchmarks.operators.steps import STEPS

MODELS = ("transformer d64", "transformer d128", "LSTM 2x128", "ResNet-18 64x64 batch 8")
PLAN = Plan(calls=4, rounds=21, wait_inside=True, pause=0.03)


def step(model: str, device: torch.device) -> Call:
    """A call that does one step over copies of the model's parameters, always with the same gradients."""
    params = [torch.nn.Parameter(param.detach().to(device)) for param in STEPS[model][0]().model.parameters()]
    for param in params:
        param.grad = torch.full_like(param, 1e-3)
    optimizer = torch.optim.AdamW(params, foreach=True)
    return lambda: optimizer.step()


def main() -> None:
    device = torch.device("tb")
    for threads in dict.fromkeys((torch.get_num_threads(), 1)):
        for model in MODELS:
            torch.set_num_threads(threads)
            found = compare(subjects(lambda on, model=model: step(model, on), device, threads), PLAN)  # type: ignore[misc]
            ours, stock = found.microseconds[:2]
            print(
                f"{model}, threads {threads}: {ours / 1e3:.2f} ms, stock cpu {stock / 1e3:.2f} ms, "
                f"{found.ratios[0].median:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
