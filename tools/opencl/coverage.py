"""Which operators of the example models run on the device: python -m opencl.coverage.

Each of the nine models trains two steps on tb. The last line has the share of operators that no call left to the CPU;
the lines before it name the others. The status is 1 if the share is below 70 percent.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from examples.models.case import Training
from torch.utils._python_dispatch import TorchDispatchMode
from training.families import FAMILIES

LEAST = 0.7


class Called(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the names of the operators that run."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(func.name().partition(".")[0])
        return func(*args, **(kwargs or {}))


def main() -> int:
    """Returns 1 if too few operators run on the device."""
    torch.tb.set_fallback_mode("allow")  # type: ignore[attr-defined]
    called: set[str] = set()
    left: dict[str, list[str]] = {}
    for name, make in FAMILIES.items():
        torch.manual_seed(0)
        training = Training(make(), torch.device("tb"))
        torch.tb.reset_fallbacks()  # type: ignore[attr-defined]
        with Called() as mode:
            for _ in range(2):
                training.step().item()
        called |= mode.names
        for row in torch.tb.fallbacks():  # type: ignore[attr-defined]
            left.setdefault(row.operator.partition(".")[0], []).append(f"{name} {row.calls}")
    for operator, models in left.items():
        print(f"{operator}: {', '.join(models)}")
    share = 1 - len(left) / len(called | left.keys())
    print(f"{len(called)} operators of {len(FAMILIES)} models, {share:.0%} of them on the device")
    return 0 if share >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
