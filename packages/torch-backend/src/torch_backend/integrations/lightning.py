"""Lightning, under both of its names, and Fabric: an accelerator "tb", found by "auto" and "gpu", and its strategy."""

from __future__ import annotations

import functools
import sys
from typing import Any

from torch_backend.integrations.client import Client, Function, Shape, Value, with_constant
from torch_backend.integrations.device import tb_is_current

_KNOWN = ("2.6", "2.6")
CLIENTS = {
    "lightning": Client("lightning", "lightning", _KNOWN),
    "pytorch_lightning": Client("pytorch_lightning", "pytorch-lightning", _KNOWN),
}

_AUTOCAST_DEVICES = ("cpu", "mps")


def _accelerator_class(base: Any) -> Any:
    """An accelerator as Lightning's interface for accelerators of others asks; `base` is its abstract class."""
    import torch

    class TBAccelerator(base):  # type: ignore[misc]
        """Trains on device tb."""

        def setup_device(self, device: torch.device) -> None:
            if device.type != "tb":
                raise ValueError(
                    f"the accelerator for tb was given the device {device}; use accelerator='tb' without it"
                )
            torch.accelerator.set_device_index(device.index or 0)

        def get_device_stats(self, device: Any) -> dict[str, Any]:
            stats: dict[str, Any] = torch.tb.memory_stats(device)  # type: ignore[attr-defined]
            return stats

        def teardown(self) -> None:
            torch.accelerator.empty_cache()

        @staticmethod
        def parse_devices(devices: Any) -> list[int]:
            return _indices(devices, torch.accelerator.device_count())

        @staticmethod
        def get_parallel_devices(devices: Any) -> list[torch.device]:
            return [torch.device("tb", index) for index in _indices(devices, torch.accelerator.device_count())]

        @staticmethod
        def auto_device_count() -> int:
            return torch.accelerator.device_count()

        @staticmethod
        def is_available() -> bool:
            return tb_is_current()

        @staticmethod
        def name() -> str:
            return "tb"

    return TBAccelerator


def _indices(devices: Any, count: int) -> list[int]:
    """The devices that an argument `devices` names: a number of them, -1 for all, a list, or "0,1".

    ValueError: there are not so many.
    """
    if isinstance(devices, str):
        devices = [int(part) for part in devices.split(",") if part.strip()] if "," in devices else int(devices)
    if isinstance(devices, int):
        devices = range(count if devices == -1 else devices)
    missing = [index for index in devices if not 0 <= index < count]
    if missing:
        raise ValueError(f"devices={list(devices)} names tb devices that do not exist; there are {count}")
    return list(devices)


def _mend(client: Client, pytorch: str, fabric: str) -> None:
    """The same places in both packages: those of the Trainer are in `pytorch`, those of Fabric in `fabric`."""
    for accelerators, registry in (
        (f"{pytorch}.accelerators", "AcceleratorRegistry"),
        (f"{fabric}.accelerators", "ACCELERATOR_REGISTRY"),
    ):
        client.mend(accelerators, registry, Value(dict))(functools.partial(_register, accelerators))
    for module, connector in (
        (f"{pytorch}.trainer.connectors.accelerator_connector", "_AcceleratorConnector"),
        (f"{fabric}.connector", "_Connector"),
    ):
        client.mend(module, f"{connector}._choose_auto_accelerator", Shape([]))(_auto)
        client.mend(module, f"{connector}._choose_gpu_accelerator_backend", Shape([], ["CUDAAccelerator"]))(_gpu)
        shape = Shape(["self"], ["_parallel_devices", "SingleDeviceStrategy"], ["cpu"])
        client.mend(module, f"{connector}._choose_strategy", shape)(_strategy)
        shape = Shape(["self"], ["MixedPrecision", "_accelerator_flag"], [_AUTOCAST_DEVICES, "cuda"])
        client.mend(module, f"{connector}._check_and_init_precision", shape)(_precision)
    shape = Shape(["include_cuda"], ["get_rng_state_all"], ["torch.cuda"])
    client.mend(f"{fabric}.utilities.seed", "_collect_rng_states", shape)(_collect)
    shape = Shape(["rng_state_dict"], ["set_rng_state_all"], ["torch.cuda"])
    client.mend(f"{fabric}.utilities.seed", "_set_rng_states", shape)(_restore)


def _register(accelerators: str, registry: Any) -> Any:
    registry.register("tb", _accelerator_class(sys.modules[accelerators].Accelerator), description="Device tb")
    return registry


def _auto(original: Function) -> Function:
    @functools.wraps(original)
    def choose_auto_accelerator() -> Any:
        chosen = original()
        return "tb" if chosen == "cpu" and tb_is_current() else chosen

    return choose_auto_accelerator


def _gpu(original: Function) -> Function:
    @functools.wraps(original)
    def choose_gpu_accelerator_backend() -> Any:
        try:
            return original()
        except Exception:
            if tb_is_current():
                return "tb"
            raise

    return choose_gpu_accelerator_backend


def _strategy(original: Function) -> Function:
    @functools.wraps(original)
    def choose_strategy(self: Any) -> Any:
        strategy, devices = original(self), self._parallel_devices
        if len(devices) == 1 and getattr(devices[0], "type", "") == "tb" and not isinstance(strategy, str):
            return type(strategy)(device=devices[0])
        return strategy

    return choose_strategy


def _precision(original: Function) -> Any:
    return with_constant(original, _AUTOCAST_DEVICES, (*_AUTOCAST_DEVICES, "tb"))


def _collect(original: Function) -> Function:
    @functools.wraps(original)
    def collect_rng_states(include_cuda: bool = True) -> Any:
        import torch

        states = original(include_cuda)
        if include_cuda and torch.tb.is_initialized():  # type: ignore[attr-defined]
            states["torch.tb"] = torch.tb.get_rng_state_all()  # type: ignore[attr-defined]
        return states

    return collect_rng_states


def _restore(original: Function) -> Function:
    @functools.wraps(original)
    def set_rng_states(rng_state_dict: Any) -> None:
        import torch

        original(rng_state_dict)
        if "torch.tb" in rng_state_dict:
            torch.tb.set_rng_state_all(rng_state_dict["torch.tb"])  # type: ignore[attr-defined]

    return set_rng_states


_mend(CLIENTS["lightning"], "lightning.pytorch", "lightning.fabric")
_mend(CLIENTS["pytorch_lightning"], "pytorch_lightning", "lightning_fabric")
