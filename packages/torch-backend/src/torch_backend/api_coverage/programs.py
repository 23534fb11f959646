"""Short programs for the public names that PyTorch's databases have no samples of: the files in programs/.

A program is Python. Its last line is an expression, the result. It finds `device`, the tensors and the functions of
`namespace`. One of `[compared.MODULE]` runs on the CPU and on the device, and both results are compared. One of
`[on_device.MODULE]` runs on the device alone, and its result has to be true. One of `[ranks.MODULE]` is compared too,
and runs in two processes, which have a process group.
"""

from __future__ import annotations

import ast
import functools
import pathlib
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from torch_backend.conformance.case import Observation
from torch_backend.conformance.checks.forward import compare_calls
from torch_backend.conformance.checks.gradients import differentiable, random_like
from torch_backend.conformance.comparison import flatten
from torch_backend.conformance.device import Device
from torch_backend.conformance.device_copies import copy_to_device
from torch_backend.conformance.outcome import RAISES, attempt, error_text
from torch_backend.conformance.profiles import Limits
from torch_backend.conformance.randomness import CPU

FILES = pathlib.Path(__file__).with_name("programs")
_COMPARED_TYPES = (torch.Tensor, bool, int, float, complex, str, torch.dtype, torch.Size)
COMPARED, ON_DEVICE, RANKS = "compared", "on_device", "ranks"


@dataclass(frozen=True)
class Program:
    """A program and how it is judged."""

    text: str
    kind: str


@functools.cache
def programs() -> dict[str, Program]:
    """The programs by the name that they show.

    Raises:
        ValueError: a name has two programs, or a program does not use its name.
    """
    found: dict[str, Program] = {}
    for file in sorted(FILES.glob("*.toml")):
        for kind, modules in tomllib.loads(file.read_text()).items():
            for module, entries in modules.items():
                for name, text in entries.items():
                    path = f"{module}.{name}"
                    if path in found or kind not in (COMPARED, ON_DEVICE, RANKS) or name not in text:
                        raise ValueError(f"{file.name}: {path} is there twice, of unknown kind, or not in its program")
                    found[path] = Program(text, kind)
    return found


def _tensors(device: Device) -> dict[str, Any]:
    """The tensors of a program, with equal values on every device."""
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=generator) * 0.8 + 0.1

    square = drawn(3, 3)
    made = {
        "x": drawn(3, 4),
        "y": drawn(3, 4),
        "v": drawn(4),
        "s": square @ square.T + torch.eye(3),  # positive definite
        "i": torch.tensor([[0, 2, 1, 3], [1, 1, 0, 2], [2, 0, 3, 1]]),
        "b": torch.tensor([[True, False, True, False], [True, True, False, False], [False, True, True, False]]),
        "z": torch.complex(drawn(3, 4), drawn(3, 4)),
        "image": drawn(2, 3, 8, 8),
        "volume": drawn(2, 3, 4, 4, 4),
        "signal": drawn(2, 3, 8),
        "sentence": drawn(5, 2, 8),
        "w": drawn(3, 4).requires_grad_(),
    }
    made |= {"coo": made["x"].to_sparse(), "csr": made["x"].to_sparse_csr(), "csc": made["x"].to_sparse_csc()}
    return dict(copy_to_device(made, device.device))


def namespace(device: Device) -> dict[str, Any]:
    """What a program finds: the device, modules, the tensors, and functions that show a module or a scheduler."""

    def trained(module: nn.Module, *inputs: Any) -> Any:
        """The module's results on the device, and the gradients of its parameters, which get the same values first."""
        with torch.no_grad():
            for parameter in module.parameters():
                if not nn.parameter.is_lazy(parameter):
                    parameter.copy_(torch.linspace(-0.5, 0.5, parameter.numel()).reshape(parameter.shape))
        results = module.to(device.device)(*inputs)
        outputs = differentiable(results)
        wanted = [parameter for parameter in module.parameters() if parameter.requires_grad]
        if not outputs or not wanted:
            return results
        return results, torch.autograd.grad(outputs, wanted, random_like(outputs, device, 1), allow_unused=True)

    def scheduled(make: Callable[[torch.optim.Optimizer], Any], *metrics: float) -> Any:
        """The rates and the parameter over some steps of an optimizer with this scheduler."""
        parameter = nn.Parameter(torch.ones(4, device=device.device))
        optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9)
        scheduler, trace = make(optimizer), []
        for _ in range(4):
            optimizer.zero_grad()
            (parameter**2).sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            scheduler.step(*metrics)
            trace.append((float(optimizer.param_groups[0]["lr"]), parameter.detach().clone()))
        return trace

    def described(distribution: Any, value: Any = None) -> Any:
        """A sample, the logarithm of the probability of a value (of the sample without one), mean and variance."""
        found = [distribution.sample((40,))]
        found.append(distribution.log_prob(found[0] if value is None else value))
        for property in ("mean", "variance"):
            try:
                found.append(getattr(distribution, property))
            except NotImplementedError:
                continue
        return found

    def mapped(transform: Any, values: torch.Tensor, *, inverse: bool = True) -> Any:
        """A transform's results there and back."""
        there = transform(values)
        return (there, transform.inv(there)) if inverse else there

    modules = {"torch": torch, "nn": nn, "F": F, "D": torch.distributions, "dist": torch.distributed}
    functions = {"trained": trained, "scheduled": scheduled, "described": described, "mapped": mapped}
    return {**modules, **functions, "device": device.device, **_tensors(device)}


def run(text: str, device: Device, **more: Any) -> Any:
    """The program's result."""
    tree = ast.parse(text.strip())
    last = tree.body.pop()
    if not isinstance(last, ast.Expr):
        raise ValueError(f"the last line of a program is no expression: {text}")
    names = namespace(device) | more
    exec(compile(tree, "<program>", "exec"), names)
    result = eval(compile(ast.Expression(last.value), "<program>", "eval"), names)
    if not any(isinstance(leaf, _COMPARED_TYPES) for leaf in flatten(result)):
        raise ValueError(f"the program's result has nothing to compare: {text}")
    return result


def program(device: Device, shown: Program, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """The program's outcome: compared with the CPU's, or true on the device."""
    if shown.kind == COMPARED:
        yield compare_calls(
            lambda: run(shown.text, CPU),
            lambda: run(shown.text, device),
            device,
            uninitialised=False,
            repeats=limits.repeats,
        )
        return
    outcome = attempt(device, lambda: run(shown.text, device))
    if outcome.error is not None:
        yield Observation(problem=f"{RAISES} {error_text(outcome.error)}")
    elif not outcome.value:
        yield Observation(problem=f"the program's result is {outcome.value!r}, which is not true")
    else:
        yield Observation()
