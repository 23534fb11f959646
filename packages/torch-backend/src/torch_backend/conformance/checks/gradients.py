"""The checks `backward`, `gradgrad` and `forward_ad`: derivatives compared with the CPU's, for the same cotangents."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torch_backend.conformance.case import Observation
from torch_backend.conformance.checks.forward import compare_calls, nudged_calls
from torch_backend.conformance.device import Device
from torch_backend.conformance.device_copies import tensors_in
from torch_backend.conformance.profiles import Limits
from torch_backend.conformance.randomness import CPU
from torch_backend.conformance.samples import Sample, samples


class NothingToDifferentiate(Exception):
    """The sample has no differentiable result, or no argument that requires a gradient."""


def random_like(tensors: list[torch.Tensor], device: Device, seed: int) -> list[torch.Tensor]:
    """Random tensors of these shapes and dtypes, the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for tensor in tensors:
        wide = torch.complex128 if tensor.is_complex() else torch.float64
        drawn = torch.randn(tensor.shape, dtype=wide, generator=generator)
        made.append(drawn.to(tensor.dtype).to(device.device))
    return made


def differentiable(values: Any) -> list[torch.Tensor]:
    return [tensor for tensor in tensors_in(values) if tensor.requires_grad]


def _wanted(op: Any, sample: Sample, device: Device) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The differentiable results of a call and the arguments that require gradients."""
    result, given = sample.call(functools.partial(op.gradcheck_wrapper, op.op), device.device)
    arguments = differentiable(given)
    results = differentiable(sample.differentiable(result))
    if not results or not arguments:
        raise NothingToDifferentiate("no result with a gradient")
    return results, arguments


def first_gradients(op: Any, sample: Sample, device: Device) -> Callable[[], Any]:
    def call() -> Any:
        results, arguments = _wanted(op, sample, device)
        return torch.autograd.grad(results, arguments, random_like(results, device, 1), allow_unused=True)

    return call


def second_gradients(op: Any, sample: Sample, device: Device) -> Callable[[], Any]:
    def call() -> Any:
        results, arguments = _wanted(op, sample, device)
        cotangents = [tensor.requires_grad_() for tensor in random_like(results, device, 1)]
        first = torch.autograd.grad(results, arguments, cotangents, allow_unused=True, create_graph=True)
        again = [gradient for gradient in first if gradient is not None and gradient.requires_grad]
        if not again:
            raise NothingToDifferentiate("no gradient with a gradient")
        inputs = [*arguments, *cotangents]
        second = torch.autograd.grad(again, inputs, random_like(again, device, 2), allow_unused=True)
        return first, second

    return call


# Untyped in torch.
fwAD: Any = torch.autograd.forward_ad


def tangents(op: Any, sample: Sample, device: Device) -> Callable[[], Any]:
    def call() -> Any:
        positional, keywords = sample.arguments(device.device)
        primals = differentiable((positional, keywords))
        if not primals:
            raise NothingToDifferentiate("no argument with a tangent")
        directions = dict(zip(map(id, primals), random_like(primals, device, 3), strict=True))

        def dual(value: Any) -> Any:
            if isinstance(value, torch.Tensor) and id(value) in directions:
                return fwAD.make_dual(value.detach(), directions[id(value)])
            return value

        with fwAD.dual_level():
            positional, keywords = pytree.tree_map(dual, (positional, keywords))
            results = sample.differentiable(op.gradcheck_wrapper(op.op, *positional, **keywords))
            unpacked = [
                fwAD.unpack_dual(tensor).tangent
                for tensor in tensors_in(results)
                if tensor.is_floating_point() or tensor.is_complex()
            ]
        if not any(tangent is not None for tangent in unpacked):
            raise NothingToDifferentiate("no result with a tangent")
        return unpacked

    return call


Derivative = Callable[[Any, Sample, Device], Callable[[], Any]]


def _check(
    derivative: Derivative, device: Device, op: Any, dtype: torch.dtype, limits: Limits
) -> Iterator[Observation]:
    for sample in samples(op, dtype, limits, requires_grad=True):
        observation = compare_calls(
            derivative(op, sample, CPU),
            derivative(op, sample, device),
            device,
            uninitialised=op.has_nondeterministic_output,
            repeats=limits.repeats,
            statistics=False,
            cancelling=True,
            nudged=nudged_calls(lambda moved: derivative(op, moved, CPU), sample),
        )
        observation.sample = sample.describe()
        yield observation


def backward(device: Device, op: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """Gradients of all arguments that require one."""
    return _check(first_gradients, device, op, dtype, limits)


def gradgrad(device: Device, op: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """Gradients of the gradients, with respect to arguments and cotangents."""
    return _check(second_gradients, device, op, dtype, limits)


def forward_ad(device: Device, op: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """Tangents of the results, by dual numbers."""
    return _check(tangents, device, op, dtype, limits)
