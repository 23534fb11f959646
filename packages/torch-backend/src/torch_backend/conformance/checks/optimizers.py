"""The checks `optimizer` and `optimizer_errors`: every optimizer of optim_db in all its implementations."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from torch_backend.conformance.case import Observation
from torch_backend.conformance.checks.forward import compare_calls
from torch_backend.conformance.device import Device
from torch_backend.conformance.device_copies import copy_to_device
from torch_backend.conformance.outcome import agree, attempt
from torch_backend.conformance.profiles import Limits
from torch_backend.conformance.randomness import CPU
from torch_backend.conformance.samples import choose, seed_everything

STEPS = 4


def configurations(info: Any) -> list[tuple[str, dict[str, Any]]]:
    """Each configuration of the database with each implementation that the optimizer has.

    The database tests `foreach` and `capturable` on accelerators only. The CPU runs foreach too, so it can be compared.
    """
    found = []
    for optimizer_input in info.optim_inputs_func(device="cpu"):
        found.append((optimizer_input.desc, dict(optimizer_input.kwargs)))
        for implementation in info.supported_impls:
            if implementation == "fused" and "cpu" not in info.supports_fused_on:
                continue
            keywords = dict(optimizer_input.kwargs) | {implementation: True}
            found.append((f"{optimizer_input.desc}, {implementation}", keywords))
    return found


def initial_parameters(dtype: torch.dtype, device: Device) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    # All are matrices, because Muon accepts nothing else.
    shapes = [(4, 3), (3, 7), (1, 5)]
    drawn = [torch.randn(shape, dtype=wide, generator=generator).to(dtype) for shape in shapes]
    return [tensor.to(device.device, copy=True).requires_grad_() for tensor in drawn]


def _call(info: Any, keywords: dict[str, Any], dtype: torch.dtype, device: Device) -> Callable[[], Any]:
    def call() -> Any:
        leaves = initial_parameters(dtype, device)
        # A differentiable step writes to its parameters under autograd, which leaves do not allow.
        parameters = [leaf.clone() for leaf in leaves] if keywords.get("differentiable") else leaves
        optimizer = info.optim_cls(parameters, **copy.deepcopy(keywords))
        trace = [train(info, optimizer, parameters, STEPS)]
        again = info.optim_cls(parameters, **copy.deepcopy(keywords))
        again.load_state_dict(optimizer.state_dict())
        trace.append(train(info, again, parameters, 1))
        return trace, parameters, _state(again, device)

    return call


def train(info: Any, optimizer: Any, parameters: list[torch.Tensor], steps: int) -> list[torch.Tensor]:
    """Minimizes a sum of squares for some steps; returns the losses."""

    def closure() -> torch.Tensor:
        with torch.enable_grad():
            current = [parameter.detach().requires_grad_() for parameter in parameters]
            loss = torch.stack([((parameter - 0.5).abs() ** 2).sum() for parameter in current]).sum()
            gradients = torch.autograd.grad(loss, current)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient.to_sparse() if info.only_supports_sparse_grads else gradient
        return loss

    # As tensors: a Python number would be compared more strictly than the dtype of its computation allows.
    return [optimizer.step(closure).detach() for _ in range(steps)]


def _state(optimizer: Any, device: Device) -> list[Any]:
    """The optimizer's state in a fixed order.

    Step counts may be on either device, and LBFGS's `t` is on the device of the given learning rate.
    """
    found: list[Any] = []
    for state in optimizer.state_dict()["state"].values():
        for name, value in sorted(state.items()):
            if name == "step":
                found.append(float(value))
            elif name == "t" and isinstance(value, torch.Tensor):
                found.append(value.to(device.device))
            else:
                found.append(value)
    return found


def optimizer(device: Device, info: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """Losses, parameters and state after some steps, a state_dict round trip and one more step."""
    for description, keywords in choose(configurations(info), limits, f"{info.name} {dtype}", lambda _: 0):
        observation = compare_calls(
            _call(info, keywords, dtype, CPU),
            _call(info, keywords, dtype, device),
            device,
            uninitialised=False,
            repeats=limits.repeats,
        )
        observation.sample = description
        yield observation


def optimizer_errors(device: Device, info: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """Error inputs of the construction. Some of them warn; these warnings are raised as errors."""
    seed_everything(limits.seed)
    for error_input in info.optim_error_inputs_func(device="cpu", dtype=dtype):
        wrong = error_input.optimizer_error_input

        def call(on: Device, wrong: Any = wrong) -> Any:
            given = initial_parameters(dtype, on) if wrong.params is None else copy_to_device(wrong.params, on.device)
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                info.optim_cls(given, **wrong.kwargs)

        observation = agree(
            attempt(CPU, lambda c=call: c(CPU)),  # type: ignore[misc]
            attempt(device, lambda c=call: c(device)),  # type: ignore[misc]
            device,
            errors_count=True,
        )
        observation.sample = wrong.desc
        yield observation
