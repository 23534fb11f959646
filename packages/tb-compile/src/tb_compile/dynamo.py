"""Dynamo's interface to a device type, implemented by the device module torch.tb."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._dynamo.device_interface import DeviceInterface, register_interface_for_device


@functools.cache
def register() -> None:
    """Registers torch.tb with Dynamo, once. Does nothing if the process has no such device."""
    module = getattr(torch, "tb", None)
    if module is not None:
        register_interface_for_device("tb", _interface(module))
        _answer_while_tracing(module)


def _interface(module: Any) -> type[DeviceInterface]:
    class Worker:
        """The current device of processes that compile, which use no device."""

        current = 0

        @staticmethod
        def set_device(device: int) -> None:
            Worker.current = device

        @staticmethod
        def current_device() -> int:
            return Worker.current

        @staticmethod
        def get_device_properties(device: Any = None) -> Any:
            return module.get_device_properties(device)

    class TbInterface(DeviceInterface):
        device = module.device
        Event, Stream = module.Event, module.Stream

        current_device = staticmethod(module.current_device)
        set_device = staticmethod(module.set_device)
        exchange_device = staticmethod(module._exchange_device)
        maybe_exchange_device = staticmethod(module._maybe_exchange_device)
        device_count = staticmethod(module.device_count)
        is_available = staticmethod(module.is_available)
        stream = staticmethod(module.stream)
        current_stream = staticmethod(module.current_stream)
        set_stream = staticmethod(module.set_stream)
        synchronize = staticmethod(module.synchronize)
        memory_allocated = staticmethod(module.memory_allocated)

        @staticmethod
        def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
            module.set_stream(module.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type))

        @staticmethod
        def get_raw_stream(device_idx: int) -> int:
            handle: int = module.current_stream(device_idx).native_handle
            return handle

        @staticmethod
        def get_compute_capability(device: Any = None) -> str:
            arch: str = module.get_device_properties(device).arch
            return arch

        @staticmethod
        def is_bf16_supported(including_emulation: bool = False) -> bool:
            supported: bool = module.is_bf16_supported()
            return supported

    TbInterface.Worker = Worker  # type: ignore[assignment, misc]
    return TbInterface


def _answer_while_tracing(module: Any) -> None:
    """Dynamo traces Python functions and fails at the first C++ function, so these functions are not traced."""
    from torch._dynamo.decorators import substitute_in_graph
    from torch._dynamo.variables.ctx_manager import GenericDeviceVariable, register_device_context_manager

    class DeviceContext(GenericDeviceVariable):
        # PyTorch knows these functions and keeps them in a graph. It would remove any other function as dead code.
        _exchange_fn = staticmethod(torch._C._accelerator_exchangeDevice)
        _maybe_exchange_fn = staticmethod(torch._C._accelerator_maybeExchangeDevice)
        _get_device_index_fn = staticmethod(module._get_device_index)

        def module_name(self) -> str:
            return "torch.tb"

        def python_type(self) -> type:
            found: type = module.device
            return found

    register_device_context_manager(module.device, DeviceContext)
    for function in (module.stream, module.synchronize):
        torch.compiler.allow_in_graph(function)  # type: ignore[no-untyped-call]

    @substitute_in_graph(module.current_stream)
    def current_stream(device: Any = None) -> torch.Stream:
        return torch.accelerator.current_stream(device) if device is not None else torch.accelerator.current_stream()

    questions = ["current_device", "device_count", "get_device_name", "get_device_properties", "is_available"]
    for name in [*questions, "is_bf16_supported", "is_initialized"]:
        torch.compiler.assume_constant_result(getattr(module, name))  # type: ignore[no-untyped-call]
