"""The public names of PyTorch, by module, and the rules by which a name concerns no device."""

from __future__ import annotations

import enum
import fnmatch
import functools
import importlib
import inspect
import types
import warnings
from typing import Any

import torch

# The modules in the order of the page.
MODULES = (
    *("torch", "torch.Tensor", "torch.nn", "torch.nn.functional", "torch.nn.init", "torch.nn.utils"),
    *("torch.nn.utils.rnn", "torch.nn.utils.parametrizations", "torch.nn.utils.parametrize", "torch.nn.attention"),
    *("torch.linalg", "torch.fft", "torch.special", "torch.signal.windows", "torch.masked", "torch.sparse"),
    *("torch.nested", "torch.func", "torch.autograd", "torch.autograd.functional", "torch.autograd.forward_ad"),
    *("torch.autograd.graph", "torch.optim", "torch.optim.lr_scheduler", "torch.optim.swa_utils"),
    *("torch.distributions", "torch.distributions.constraints", "torch.distributions.transforms", "torch.amp"),
    *("torch.accelerator", "torch.profiler", "torch.random", "torch.utils.checkpoint", "torch.utils.data"),
    *("torch.utils.dlpack", "torch.testing", "torch.distributed"),
)

# Names that concern no device and that no other rule finds.
_NO_DEVICE = (
    *("torch.sym_*", "torch.Sym*", "torch.is_vulkan_available", "torch.typename", "torch.set_printoptions"),
    *("torch.[A-Z]*Storage", "torch.[A-Z]*Tensor", "torch.compiled_with_cxx11_abi"),  # legacy types of the CPU
    *("torch.Storage", "torch.classproperty", "torch.profiler_allow_*", "torch.autograd.is_*"),
    *(
        "torch.autograd.kineto_available",
        "torch.autograd.has_torch_function",
        "torch.nn.functional.has_torch_function*",
    ),
    *("torch.nn.functional.handle_torch_function", "torch.nn.functional.boolean_dispatch"),
    *("torch.nn.factory_kwargs", "torch.nn.attention.register_*"),
    *("torch.utils.data.*_datapipe*", "torch.utils.data.*DataPipe", "torch.utils.data.runtime_validation*"),
    *("torch.utils.data.argument_validation", "torch.utils.data.DataChunk", "torch.utils.data.non_deterministic"),
    *("torch.distributed.*Options", "torch.distributed.BackendConfig", "torch.distributed.Group*"),
    *("torch.distributed.Logger", "torch.distributed.*rendezvous*", "torch.distributed.set_debug_level*"),
    *("torch.distributed.breakpoint", "torch.distributions.constraints.dependent"),
)
# Operators of libraries of other devices, which PyTorch calls by itself.
_OTHER_LIBRARIES = ("torch.cudnn_*", "torch.miopen_*", "torch.mkldnn_*", "torch.fbgemm_*")

_PLAIN = (bool, int, float, complex, str, bytes, list, dict, set, tuple, torch.dtype, torch.layout, torch.memory_format)
# What a signature names if the function takes or gives something of a device.
_OF_A_DEVICE = (
    *("Tensor", "device", "Device", "Module", "Storage", "Stream", "Generator", "Any", "Optimizer", "Callable"),
    *("~", "_P", "P2POp"),
)


def _public(path: str, module: Any, name: str, value: Any) -> bool:
    """Whether a name is in `__all__`, or is torch's own and a module has no `__all__` or one that lacks functions."""
    if name.startswith("_") or value is None or isinstance(value, types.ModuleType):
        return False
    listed = getattr(module, "__all__", None)
    if listed and name in listed:
        return True
    own = str(getattr(value, "__module__", None) or "torch").partition(".")[0] == "torch"
    lacks = isinstance(value, types.BuiltinFunctionType) or (path == "torch" and callable(value))
    return own and (lacks if listed else True)


@functools.cache
def public_names() -> dict[str, Any]:
    """The public names with their values, without modules: those of `__all__`, else those without an underscore."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some names are deprecated
        for path in MODULES:
            module = torch.Tensor if path == "torch.Tensor" else importlib.import_module(path)
            names = {*dir(module), *getattr(module, "__all__", ())}
            for name in sorted(names, key=lambda name: (name.lower(), name)):
                value = getattr(module, name, None)
                if _public(path, module, name, value):
                    found[f"{path}.{name}"] = value
    return found


def of_another_library(path: str) -> bool:
    """Whether a name is an operator of a library of another device."""
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in _OTHER_LIBRARIES)


def concerns_no_device(path: str, value: Any) -> bool:
    """Whether a name is a plain value, an exception, an enumeration, a type of the interpreter, or a setting."""
    name = path.rpartition(".")[2]
    if any(fnmatch.fnmatchcase(path, pattern) for pattern in _NO_DEVICE):
        return True
    if value is torch.Tensor or hasattr(value, "__members__"):  # enumerations of pybind11 have members too
        return True
    if isinstance(value, type):
        return issubclass(value, (BaseException, enum.Enum)) or getattr(torch._C, name, None) is value
    if path.startswith("torch.Tensor."):
        return False
    if isinstance(value, _PLAIN) or not callable(value):
        return True
    if isinstance(value, types.BuiltinFunctionType):
        return getattr(torch._C, name, None) is value and not hasattr(torch._C._VariableFunctions, name)
    return _signature_without_device(value)


def _signature_without_device(value: Any) -> bool:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return False
    annotations = [signature.return_annotation, *(one.annotation for one in signature.parameters.values())]
    if inspect.Signature.empty in annotations:
        return False
    return not any(word in str(annotation) for annotation in annotations for word in _OF_A_DEVICE)
