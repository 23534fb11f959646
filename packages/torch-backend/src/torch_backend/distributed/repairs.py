"""What torch.distributed needs for a backend from outside. What a version of PyTorch has itself is left as it is."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

import torch_backend.distributed as ours
from torch_backend._after_import import after_import
from torch_backend.distributed import context_parallel, restarts

_PARAMETERS_OF_FSDP = "torch.distributed.fsdp._flat_param"
_ENGINES = ("gloo", "nccl")
"""Backends of PyTorch's that tbccl has as its engines."""


def install() -> None:
    """Makes the changes. Called once, at import."""
    _serve_the_usual_backends()
    restarts.install()
    context_parallel.install()
    _complete_the_class_of_backends()
    _let_the_default_group_split()
    if not hasattr(distributed_c10d, "_get_default_backend_type_for_backend_config"):
        _choose_the_default_backend()
    after_import(_PARAMETERS_OF_FSDP, _keep_the_memory_of_offloaded_parameters)


def _serve_the_usual_backends() -> None:
    """Lets a group that serves the CPU serve tb, and the other way round; and lets lists of devices say it for each.

    - No backend: PyTorch takes that of the accelerator alone, so that CPU tensors have none.
    - "gloo": device_id binds a group to a device, and PyTorch then asks every group for that device.
    - "tbccl": CPU tensors, such as those of pickled objects, go to gloo.
    - "cpu:gloo,tb:gloo" and other lists: gloo takes no tb tensors itself, and tbccl no CPU tensors.
    - "fake", and others that PyTorch offers for all its devices: they serve tb as those.
    """
    stock: Any = distributed_c10d.BackendConfig.__init__

    @functools.wraps(stock)
    def __init__(self: Any, backend: Any) -> None:
        name = str(backend).lower()
        if name == distributed_c10d.Backend.UNDEFINED and _tb_is_the_accelerator():
            name = distributed_c10d.Backend.default_device_backend_map["tb"]
        stock(self, f"cpu:gloo,tb:{ours.NAME}" if name == ours.NAME else backend)
        of = self.device_backend_map = _served(self.device_backend_map)
        if not _tb_is_the_accelerator() or "tb" in of:
            return
        if name == distributed_c10d.Backend.GLOO:
            # PyTorch would make a second gloo for it, and refuses that where the group is bound to a device.
            if not torch.cuda.is_available():
                of.pop("cuda", None)
            of["tb"] = distributed_c10d.Backend(ours.NAME)
        elif _serves_all_devices(name):
            of["tb"] = of["cpu"]

    distributed_c10d.BackendConfig.__init__ = __init__  # type: ignore[method-assign]


def _served(asked: dict[str, Any]) -> dict[str, Any]:
    """The backend of each device that a list names: tbccl in the place of its engines for tb, gloo in that of tbccl."""
    served = {}
    for device, backend in asked.items():
        is_tb = torch.device(device).type == "tb"  # also under PyTorch's own name for such a device
        if is_tb and backend in _ENGINES and (backend != "nccl" or dist.is_nccl_available()):
            backend = distributed_c10d.Backend(ours.NAME)
        elif device == "cpu" and backend == ours.NAME:
            backend = distributed_c10d.Backend(distributed_c10d.Backend.GLOO)
        served["tb" if is_tb else device] = backend
    return served


def _serves_all_devices(name: str) -> bool:
    """Whether a backend from outside is for the CPU and accelerators, as PyTorch takes those without a list."""
    devices = distributed_c10d.Backend.backend_capability.get(name, [])
    return name.upper() in distributed_c10d.Backend._plugins and {"cpu", "cuda"} <= set(devices)


def _tb_is_the_accelerator() -> bool:
    accelerator: torch.device = torch._C._get_accelerator()
    return accelerator.type == "tb"


class _FreshOptions:
    """What split_group copies and hands to C++. The copy is of gloo's options, which cannot be copied themselves."""

    def __deepcopy__(self, memo: object) -> object:
        gloo: Any = dist.ProcessGroupGloo
        options = gloo._Options()
        options._devices = [dist.ProcessGroupGloo.create_default_device()]
        return options


def _complete_the_class_of_backends() -> None:
    """Adds what split_group and new_group ask of each backend that can split, and what only NCCL's class has.

    Later versions of PyTorch have `options` in the class of all backends.
    """
    backend: Any = torch._C._distributed_c10d.Backend
    if not hasattr(backend, "options"):
        backend.options = property(lambda self: _FreshOptions())
    if not hasattr(backend, "perform_nocolor_split"):
        # For ranks outside of a new group, once the default group is bound to a device. Gloo needs nothing of them.
        backend.perform_nocolor_split = lambda self, device: None


def _let_the_default_group_split() -> None:
    """Gives gloo the ranks of the default group, which it looks up when the group is split and which only others have.

    It ends the process where they are missing.
    """
    group: Any = dist.ProcessGroup
    stock = group.split_group

    @functools.wraps(stock)
    def split_group(self: Any, *arguments: Any, **keywords: Any) -> Any:
        for device in self._device_types:
            backend: Any = self._get_backend(device)
            if isinstance(backend, dist.ProcessGroupGloo) and not backend.options.global_ranks_in_group:
                backend.options.global_ranks_in_group = list(range(self.size()))
        return stock(self, *arguments, **keywords)

    group.split_group = split_group


def _choose_the_default_backend() -> None:
    """Makes ours the default backend of a group with one for the CPU, as NCCL is.

    PyTorch compares the name of a backend in capital letters with the name itself, and takes gloo, or none. DDP asks
    for the default backend.
    """
    group: Any = dist.ProcessGroup
    stock, custom = group._register_backend, group.BackendType.CUSTOM

    @functools.wraps(stock)
    def register_backend(self: Any, device: torch.device, backend_type: Any, backend: Any = None) -> None:
        stock(self, device, backend_type, backend)
        if backend is not None and backend_type == custom and backend.name() == ours.NAME and device.type == "tb":
            self._set_default_backend(custom)

    group._register_backend = register_backend


def _keep_the_memory_of_offloaded_parameters() -> None:
    """Keeps the parameters of FSDP1 on the device while kernels read them, under NO_SHARD with CPUOffload.

    PyTorch copies them to the device on one stream, computes on another, and frees them without `record_stream`, which
    it calls for sharded parameters. The next ones that are copied get the memory that kernels still read.
    """
    module: Any = importlib.import_module(_PARAMETERS_OF_FSDP)
    handle = module.FlatParamHandle
    if not hasattr(handle, "_use_sharded_flat_param") or not hasattr(module, "_no_dispatch_record_stream"):
        return  # another version of PyTorch's
    stock = handle._use_sharded_flat_param

    @functools.wraps(stock)
    def use_sharded_flat_param(self: Any) -> None:
        unsharded = self.flat_param.data
        if self._offload_params and unsharded.device.type == "tb":
            module._no_dispatch_record_stream(unsharded, self._device_handle.current_stream())
        stock(self)

    handle._use_sharded_flat_param = use_sharded_flat_param
