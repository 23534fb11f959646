"""PyTorch's switches for the whole process, which CPU kernels read while they run: what is queued runs before a change.

Kernels find default dtype, determinism, precision of float32 products and oneDNN's flags in globals of PyTorch, with no
place for another thread's. So whoever changes one waits for tb, as every other use of a result does.
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


def wait_at_changes() -> None:
    """Puts the wait before PyTorch's setters. Once, at import."""
    waiting = {getattr(torch._C, name): _after_a_wait(getattr(torch._C, name)) for name in _SETTERS}
    for name in _SETTERS:
        setattr(torch._C, name, waiting[getattr(torch._C, name)])
    # Attributes such as torch.backends.mkldnn.enabled hold the setter itself.
    for attribute in vars(torch.backends.mkldnn.MkldnnModule).values():
        if getattr(attribute, "setter", None) in waiting:
            attribute.setter = waiting[attribute.setter]


def _after_a_wait(setter: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(setter)
    def change(*arguments: Any, **keywords: Any) -> Any:
        try:
            _wait()
        finally:
            result = setter(*arguments, **keywords)
        return result

    return change


def _wait() -> None:
    if not _state.is_initialized():
        return
    from torch_backend import device_module

    if device_module.is_current_stream_capturing():
        return  # what is captured runs later, with the switches of then
    for device in range(device_module.device_count()):
        device_module.synchronize(device)
