"""The check `fake`: fake tensors of the device predict dtype, shape, strides and device of the real results.

If a fake CPU tensor does not predict the CPU's result, the error is in PyTorch's description of the operator and not in
the device: such a sample proves nothing. The same holds for the operators for which PyTorch predicts CUDA's result on
every device that it does not know by name: the other checks require the CPU's result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from torch_backend.conformance.case import Observation
from torch_backend.conformance.checks.layout import arranged, channels_last
from torch_backend.conformance.comparison import flatten, significant_strides
from torch_backend.conformance.device import Device
from torch_backend.conformance.device_copies import tensors_in
from torch_backend.conformance.outcome import Outcome, attempt, error_text
from torch_backend.conformance.profiles import Limits
from torch_backend.conformance.randomness import CPU
from torch_backend.conformance.samples import Sample, samples

# The operators for which PyTorch predicts CUDA's result. It differs in the statistics of norms (their type, and none
# in evaluation) and in strides.
BY_NAME = (
    "_batch_norm_with_update",
    "_native_batch_norm_legit",
    "native_batch_norm",
    "native_layer_norm",
    "nn.functional.pixel_shuffle",
    "nonzero_static",
)


def _real(op: Any, sample: Sample, device: Device) -> Callable[[], Any]:
    return lambda: sample.call(op.op, device.device)[0]


def _fake(op: Any, sample: Sample, device: Device) -> Callable[[], Any]:
    def predicted(*positional: Any, **keywords: Any) -> Any:
        mode = FakeTensorMode()
        converted = {id(tensor): mode.from_tensor(tensor) for tensor in tensors_in((positional, keywords))}

        def walk(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: walk(member) for key, member in value.items()}
            if type(value) in (list, tuple):
                return type(value)(walk(member) for member in value)
            return converted.get(id(value), value)

        with mode:
            return op.op(*walk(list(positional)), **walk(keywords))

    return lambda: sample.call(predicted, device.device)[0]


def _disagreement(real: Outcome, fake: Outcome, *, devices: bool = True) -> str | None:
    """How the prediction differs from the real outcome; `devices=False` for a prediction made for another device."""
    if real.error is not None or fake.error is not None:
        if type(real.error) is type(fake.error):
            return None
        return " and ".join(
            f"the {name} call {'raises ' + error_text(outcome.error) if outcome.error else 'does not raise'}"
            for name, outcome in (("real", real), ("fake", fake))
        )
    wanted, given = flatten(real.value), flatten(fake.value)
    if len(wanted) != len(given):
        return f"{len(given)} results predicted, {len(wanted)} real ones"
    for one, other in zip(wanted, given, strict=True):
        if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
            continue
        for name in ("dtype", "shape", "layout"):
            if getattr(one, name) != getattr(other, name):
                return f"{name} is {getattr(one, name)}, predicted was {getattr(other, name)}"
        if devices and one.device.type != other.device.type:
            return f"device is {one.device}, predicted was {other.device}"
        if one.layout == torch.strided and significant_strides(one) != significant_strides(other):
            return f"strides of {tuple(one.shape)} are {one.stride()}, predicted was {other.stride()}"
    return None


def _in_both_formats(taken: Iterable[Sample]) -> Iterator[Sample]:
    for sample in taken:
        yield sample
        values, changed = arranged(sample, channels_last)
        if changed:
            yield dataclasses.replace(sample, values=values)


def fake(device: Device, op: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """The prediction for the device against its real results, also for images with channels last."""
    for sample in _in_both_formats(samples(op, dtype, limits)):
        observation = Observation(sample=sample.describe())
        predicted_for_cpu = attempt(CPU, _fake(op, sample, CPU))
        on_cpu = _disagreement(attempt(CPU, _real(op, sample, CPU)), predicted_for_cpu)
        if on_cpu is not None:
            observation.vacuous = f"on the CPU too: {on_cpu}"
        else:
            real, predicted = attempt(device, _real(op, sample, device)), attempt(device, _fake(op, sample, device))
            observation.problem = _disagreement(real, predicted)
            if isinstance(predicted.error, DataDependentOutputException):  # newer fake CPU tensors remember values
                observation.problem, observation.vacuous = None, f"PyTorch predicts nothing: {predicted.error}"
            by_name = op.name in BY_NAME and real.error is None and predicted.error is None
            if observation.problem and by_name and not _disagreement(real, predicted_for_cpu, devices=False):
                observation.vacuous = f"PyTorch predicts the CPU's result for the CPU only: {observation.problem}"
        yield observation
