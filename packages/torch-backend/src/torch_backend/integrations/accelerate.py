"""accelerate: the default device, several ranks, fp16, random numbers in checkpoints, the memory for device maps."""

from __future__ import annotations

import functools
import inspect
import os
from typing import Any

from torch_backend.integrations.client import Client, Devices, Function, Shape, with_constant
from torch_backend.integrations.device import (
    current_tb,
    instead_of_cpu,
    load_random_state,
    save_random_state,
    tb_is_current,
)

accelerate = Client("accelerate", "accelerate")
CLIENTS = {"accelerate": accelerate}

_FP16_DEVICES = Devices(("cuda", "xpu", "npu"))


@accelerate.mend("accelerate.state", "PartialState.default_device", Shape(["self"], ["device"], ["cpu"]))
def _default_device(original: Function) -> Function:
    @functools.wraps(original)
    def default_device(self: Any) -> Any:
        return instead_of_cpu(original(self))

    return default_device


@accelerate.mend(
    "accelerate.state",
    "PartialState._prepare_backend",
    Shape(["self", "cpu"], ["MULTI_GPU", "NO"], ["LOCAL_RANK"]),
)
def _prepare_backend(original: Function) -> Function:
    """Where accelerate knows no device for the ranks of a launcher, it takes each for a process of its own."""

    @functools.wraps(original)
    def prepare_backend(self: Any, cpu: bool = False, *args: Any, **kwargs: Any) -> Any:
        import torch
        from accelerate.utils import DistributedType

        chosen, kind = original(self, cpu, *args, **kwargs)
        rank = int(os.environ.get("LOCAL_RANK", -1))
        if kind != DistributedType.NO or rank == -1 or cpu or self.device is not None or not tb_is_current():
            return chosen, kind
        torch.accelerator.set_device_index(rank % torch.accelerator.device_count())
        self.device = current_tb()  # set_device, which is called later, would take CUDA's for this type
        return chosen or "tbccl", DistributedType.MULTI_GPU

    return prepare_backend


@accelerate.mend(
    "accelerate.accelerator",
    "Accelerator.__init__",
    Shape(None, ["mixed_precision", "device"], [_FP16_DEVICES]),
)
def _allow_fp16(original: Function) -> Any:
    return with_constant(original, _FP16_DEVICES, "tb")


@accelerate.mend(
    "accelerate.utils.modeling",
    "get_grad_scaler",
    Shape(["distributed_type", "kwargs"], ["GradScaler"]),
)
def _grad_scaler(original: Function) -> Function:
    @functools.wraps(original)
    def get_grad_scaler(distributed_type: Any = None, **kwargs: Any) -> Any:
        import torch
        from accelerate.state import PartialState
        from accelerate.utils import DistributedType

        if PartialState().device.type != "tb":
            return original(distributed_type, **kwargs)
        if distributed_type != DistributedType.FSDP:
            return torch.amp.GradScaler("tb", **kwargs)
        from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

        return ShardedGradScaler("tb", **kwargs)

    return get_grad_scaler


@accelerate.mend(
    "accelerate.checkpointing",
    "save_accelerator_state",
    Shape(None, ["output_dir", "process_index", "get_rng_state"]),
)
def _save_state(original: Function) -> Function:
    @functools.wraps(original)
    def save_accelerator_state(*args: Any, **kwargs: Any) -> Any:
        saved = original(*args, **kwargs)
        arguments = inspect.signature(original).bind(*args, **kwargs).arguments
        save_random_state(arguments["output_dir"], arguments["process_index"])
        return saved

    return save_accelerator_state


@accelerate.mend(
    "accelerate.checkpointing",
    "load_accelerator_state",
    Shape(None, ["input_dir", "process_index", "set_rng_state"]),
)
def _load_state(original: Function) -> Function:
    @functools.wraps(original)
    def load_accelerator_state(*args: Any, **kwargs: Any) -> Any:
        loaded = original(*args, **kwargs)
        arguments = inspect.signature(original).bind(*args, **kwargs).arguments
        load_random_state(arguments["input_dir"], arguments["process_index"])
        return loaded

    return load_accelerator_state


@accelerate.mend(
    "accelerate.utils.modeling",
    "get_max_memory",
    Shape(["max_memory"], ["mem_get_info", "convert_file_size_to_int"], ["cpu"]),
)
def _max_memory(original: Function) -> Function:
    @functools.wraps(original)
    def get_max_memory(max_memory: Any = None, *args: Any, **kwargs: Any) -> Any:
        import torch
        from accelerate.utils.modeling import convert_file_size_to_int

        if not tb_is_current() or torch.cuda.is_available():
            return original(max_memory, *args, **kwargs)
        devices = range(torch.accelerator.device_count())
        if max_memory is None:
            free = {index: torch.tb.mem_get_info(index)[0] for index in devices}  # type: ignore[attr-defined]
            return {**free, **original(None, *args, **kwargs)}
        # The original counts CUDA's devices and would report each of these as missing.
        sizes = {index: max_memory[index] for index in devices if index in max_memory}
        ours = {
            index: convert_file_size_to_int(size) if isinstance(size, str) else size for index, size in sizes.items()
        }
        others = {name: size for name, size in max_memory.items() if name not in ours}
        return {**ours, **original(others, *args, **kwargs)}

    return get_max_memory
