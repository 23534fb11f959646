"""PyTorch's process-wide settings, which CPU kernels read while they run: a change waits for queued work.

Kernels read the default dtype, determinism, the precision of float32 products and oneDNN's flags from globals of
PyTorch. A queued kernel must see the settings of its call, so the setters synchronize tb before they change one.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch

from torch_backend import _state

_SETTERS = (
    "_set_default_dtype",
    "_set_deterministic_algorithms",
    "_set_float32_matmul_precision",
    "_set_fp32_precision_setter",
    "_set_mkldnn_deterministic",
    "_set_mkldnn_enabled",
    "_set_onednn_allow_tf32",
)


def synchronize_before_changes() -> None:
    """Wraps PyTorch's setters. Called once, at import."""
    wrapped = {getattr(torch._C, name): _synchronizing(getattr(torch._C, name)) for name in _SETTERS}
    for name in _SETTERS:
        setattr(torch._C, name, wrapped[getattr(torch._C, name)])
    # Attributes such as torch.backends.mkldnn.enabled hold the setter itself.
    for attribute in vars(torch.backends.mkldnn.MkldnnModule).values():
        if getattr(attribute, "setter", None) in wrapped:
            attribute.setter = wrapped[attribute.setter]


def _synchronizing(setter: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(setter)
    def change(*arguments: Any, **keywords: Any) -> Any:
        try:
            _synchronize()
        finally:
            result = setter(*arguments, **keywords)
        return result

    return change


def _synchronize() -> None:
    if not _state.is_initialized():
        return
    from torch_backend import device_module

    if device_module.is_current_stream_capturing():
        return  # captured work runs later, with the settings at that time
    for device in range(device_module.device_count()):
        device_module.synchronize(device)
