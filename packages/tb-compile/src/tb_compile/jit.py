"""TorchScript's delegate interface (`torch::jit::backend<T>`) for tb: modules whose methods run on the device.

Legacy: PyTorch has deprecated TorchScript and does not support it from Python 3.14 on. New programs use
`torch.compile(backend="tb")`. Importing this module registers the backend; a process that loads a saved module must
import it first.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ._core import register_delegate

_torch_c: Any = torch._C  # its stubs lack these functions
NAME: str = torch._C._get_privateuse1_backend_name()

register_delegate()

Spec = Mapping[str, Mapping[str, str]]


def _complete(spec: Spec) -> dict[str, dict[str, str]]:
    """Adds the default device, because TorchScript cannot infer the type of an empty dictionary."""
    return {method: {"device": f"{NAME}:0", **one} for method, one in spec.items()}


def is_available() -> bool:
    """Whether there is a device for lowered modules."""
    with _without_deprecation():
        found: bool = getattr(torch.classes.__backends__, NAME)().is_available()
    return found


def to_backend(module: torch.jit.ScriptModule, spec: Spec) -> torch.jit.ScriptModule:
    """Lowers methods of a scripted or traced module to the device.

    spec: for each method the device on which it runs: {"forward": {"device": "tb:1"}}, or {} for "tb:0".

    Returns a module that has these methods only. torch.jit.save and torch.jit.load save and load it with its
    parameters, onto the devices of `spec`. A module in evaluation mode is frozen. TorchScript's interpreter runs
    methods with control flow. ValueError: a device of another type. RuntimeError: there is no such method; from a call,
    an operator's error with the user's line.
    """
    with _without_deprecation():
        lowered: torch.jit.ScriptModule = _torch_c._jit_to_backend(NAME, module, _complete(spec))
    return lowered


def to_backend_selective(
    module: torch.jit.ScriptModule, spec: Spec, submodules: Sequence[str]
) -> torch.jit.ScriptModule:
    """Lowers these submodules, such as "encoder.layer"; TorchScript runs the rest of the module. See to_backend()."""

    def lower(submodule: Any) -> Any:
        return _torch_c._jit_to_backend(NAME, submodule, _complete(spec))

    with _without_deprecation():
        lowered: torch.jit.ScriptModule = _torch_c._jit_to_backend_selective(module, lower, list(submodules))
    return lowered


@contextmanager
def _without_deprecation() -> Iterator[None]:
    """Hides PyTorch's deprecation warnings, which are about its own internal calls."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield
