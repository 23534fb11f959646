"""The checks `module`, `module_forward_ad` and `module_errors`: every nn.Module of module_db, compared with the CPU."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree

from torch_backend.conformance.case import Observation
from torch_backend.conformance.checks.forward import compare_calls
from torch_backend.conformance.checks.gradients import differentiable, random_like
from torch_backend.conformance.device import Device
from torch_backend.conformance.device_copies import copy_to_device
from torch_backend.conformance.outcome import agree, attempt
from torch_backend.conformance.profiles import Limits
from torch_backend.conformance.randomness import CPU
from torch_backend.conformance.samples import choose, seed_everything


def _built(info: Any, module_input: Any, dtype: torch.dtype, training: bool) -> torch.nn.Module:
    """The module on the CPU, with the same parameters every time."""
    given = module_input.constructor_input
    # The outer generator's state is restored: `reference` recognises random calls by a change of it.
    with torch.random.fork_rng(devices=[]):
        CPU.seed(0)
        module: torch.nn.Module = info.module_cls(*copy.deepcopy(given.args), **copy.deepcopy(given.kwargs))
    return module.to(dtype).train(training)


def _call(info: Any, module_input: Any, dtype: torch.dtype, training: bool, device: Device) -> Callable[[], Any]:
    def call() -> Any:
        module = _built(info, module_input, dtype, training).to(device.device)
        given = module_input.forward_input
        if given is None:
            return list(module.state_dict().values())
        positional, keywords = copy_to_device((given.args, given.kwargs), device.device)
        results = module(*positional, **keywords)
        wanted = [*module.parameters(), *differentiable((positional, keywords))]
        outputs = differentiable(results)
        gradients: Any = None
        if outputs and wanted:
            gradients = torch.autograd.grad(outputs, wanted, random_like(outputs, device, 1), allow_unused=True)
        return results, gradients, list(module.state_dict().values())

    return call


def _modes(info: Any) -> list[bool]:
    return [True, False] if info.train_and_eval_differ else [True]


def module(device: Device, info: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """Results, gradients, and parameters and buffers after the call; in train and eval mode."""
    for training in _modes(info):
        seed_everything(limits.seed)
        inputs = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
        for module_input in choose(inputs, limits, f"{info.name} {dtype}", lambda _: 0):
            observation = compare_calls(
                _call(info, module_input, dtype, training, CPU),
                _call(info, module_input, dtype, training, device),
                device,
                uninitialised=False,
                repeats=limits.repeats,
                statistics=False,
                cancelling=True,
            )
            observation.sample = f"{'train' if training else 'eval'} mode, {module_input.desc or 'plain'}"
            yield observation


def _tangents(info: Any, module_input: Any, dtype: torch.dtype, training: bool, device: Device) -> Callable[[], Any]:
    """The results' derivatives in a direction of all parameters and differentiable arguments."""

    def call() -> Any:
        module = _built(info, module_input, dtype, training).to(device.device)
        given = module_input.forward_input
        positional, keywords = copy_to_device((given.args, given.kwargs), device.device)
        parameters = {name: value.detach() for name, value in module.named_parameters()}
        with forward_ad.dual_level():

            def dual(leaf: Any) -> Any:
                if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
                    return leaf
                return forward_ad.make_dual(leaf.detach(), random_like([leaf], device, 1)[0])  # type: ignore[no-untyped-call]

            positional, keywords, parameters = pytree.tree_map(dual, (positional, keywords, parameters))
            results = torch.func.functional_call(module, parameters, tuple(positional), keywords)
            leaves = [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]
            return [forward_ad.unpack_dual(leaf).tangent for leaf in leaves]  # type: ignore[no-untyped-call]

    return call


def module_forward_ad(device: Device, info: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """Tangents of the results, or the CPU's exception where it has no formula."""
    seed_everything(limits.seed)
    inputs = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=True)
    for module_input in choose(inputs, limits, f"{info.name} {dtype}", lambda _: 0):
        if module_input.forward_input is None:
            continue
        observation = compare_calls(
            _tangents(info, module_input, dtype, True, CPU),
            _tangents(info, module_input, dtype, True, device),
            device,
            uninitialised=False,
            repeats=limits.repeats,
            statistics=False,
            cancelling=True,
        )
        observation.sample = module_input.desc or "plain"
        yield observation


def module_errors(device: Device, info: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """Error inputs of the construction and of the call."""
    for training in _modes(info):
        seed_everything(limits.seed)
        given = info.module_error_inputs_func(info, device="cpu", dtype=dtype, requires_grad=False, training=training)
        for error_input in given:
            wrong = error_input.module_error_input
            observation = agree(
                attempt(CPU, _call(info, wrong, dtype, training, CPU)),
                attempt(device, _call(info, wrong, dtype, training, device)),
                device,
                values=False,
                errors_count=True,
            )
            observation.sample = wrong.desc or error_input.error_regex
            yield observation
