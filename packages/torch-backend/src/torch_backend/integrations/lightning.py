"""Lightning, under both of its names, and Fabric: an accelerator "tb", found by "auto" and "gpu", and strategies."""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any

from torch_backend.integrations.client import Client, Function, Shape, Value, with_constant
from torch_backend.integrations.device import tb_is_current

CLIENTS = {
    "lightning": Client("lightning", "lightning"),
    "pytorch_lightning": Client("pytorch_lightning", "pytorch-lightning"),
}


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
        flags = "_check_config_and_set_final_flags"
        client.mend(module, f"{connector}.{flags}", Shape(None, ["_accelerator_flag", "_strategy_flag"]))(_flags)
        client.mend(module, f"{connector}._choose_auto_accelerator", Shape([]))(_auto)
        client.mend(module, f"{connector}._choose_gpu_accelerator_backend", Shape([]))(_gpu)
        shape = Shape(["self"], ["_parallel_devices", "SingleDeviceStrategy"], ["cpu"])
        client.mend(module, f"{connector}._choose_strategy", shape)(_strategy)
        shape = Shape(["self"], ["MixedPrecision"], ["cuda"])
        client.mend(module, f"{connector}._check_and_init_precision", shape)(_precision)
        shape = Shape(["self"], ["FSDPStrategy", "_accelerator_flag"])
        client.mend(module, f"{connector}._check_strategy_and_fallback", shape)(_allow_fsdp)
    shape = Shape(["trainer"], ["CUDAAccelerator", "accelerator", "rank_zero_info"])
    client.mend(f"{pytorch}.trainer.setup", "_log_device_info", shape)(
        functools.partial(_log, f"{pytorch}.trainer.setup")
    )
    _mend_ranks(client, pytorch, fabric)
    shape = Shape(["include_cuda"], ["get_rng_state_all"], ["torch.cuda"])
    client.mend(f"{fabric}.utilities.seed", "_collect_rng_states", shape)(_collect)
    shape = Shape(["rng_state_dict"], ["set_rng_state_all"], ["torch.cuda"])
    client.mend(f"{fabric}.utilities.seed", "_set_rng_states", shape)(_restore)


def _mend_ranks(client: Client, pytorch: str, fabric: str) -> None:
    """What several processes need."""
    for strategies, device_ids in (
        (f"{pytorch}.strategies", "determine_ddp_device_ids"),
        (f"{fabric}.strategies", "_determine_ddp_device_ids"),
    ):
        shape = Shape(["self"], ["root_device"], ["cpu"])
        client.mend(f"{strategies}.ddp", f"DDPStrategy.{device_ids}", shape)(_device_ids)
        shape = Shape(["self"], ["init_device_mesh"], ["cuda"])
        client.mend(f"{strategies}.fsdp", "FSDPStrategy.setup_environment", shape)(_tb_for_cuda)
    shape = Shape(["self"], ["root_device", "_register_ddp_comm_hook"], ["cuda"])
    client.mend(f"{pytorch}.strategies.ddp", "DDPStrategy._register_ddp_hooks", shape)(_tb_for_cuda)
    for package in (pytorch, fabric):
        module, shape = f"{package}.plugins.precision.fsdp", Shape(["self"], ["autocast"], ["cuda"])
        client.mend(module, "FSDPPrecision.forward_context", shape)(_tb_for_cuda)
        shape = Shape(["self", "precision", "scaler"], ["ShardedGradScaler"])
        client.mend(module, "FSDPPrecision.__init__", shape)(_sharded_scaler)
    shape = Shape(["result", "group", "reduce_op"], ["all_reduce"])
    client.mend(f"{fabric}.utilities.distributed", "_sync_ddp", shape)(_mean)


def _register(accelerators: str, registry: Any) -> Any:
    module: Any = sys.modules[accelerators]
    made = _accelerator_class(module.Accelerator)
    # Lightning pickles it for processes that it starts itself, which find it under this name.
    made.__module__, made.__qualname__ = accelerators, made.__name__
    setattr(module, made.__name__, made)
    registry.register("tb", made, description="Device tb")
    return registry


def _flags(original: Function) -> Function:
    """A strategy that has a device of its own, such as SingleDeviceStrategy("cpu"), says which accelerator is meant."""

    @functools.wraps(original)
    def check_config_and_set_final_flags(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if self._accelerator_flag == "auto" and _own_device(self._strategy_flag) == "cpu":
            self._accelerator_flag = "cpu"
        return result

    return check_config_and_set_final_flags


def _own_device(strategy: Any) -> str | None:
    """The type of the device that a strategy object was made for; None if it takes those of the accelerator."""
    if isinstance(strategy, str) or hasattr(strategy, "parallel_devices"):
        return None  # Lightning itself reads those
    try:
        return str(strategy.root_device.type)
    except Exception:  # a strategy of others may know its device only later
        return None


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


def _on_tb(connector: Any) -> bool:
    """Whether the chosen devices are tb's, whatever the accelerator was asked for as."""
    return any(getattr(device, "type", "") == "tb" for device in connector._parallel_devices)


def _precision(original: Function) -> Function:
    """Lightning takes CUDA's autocast and scaler for every accelerator that it does not know."""

    @functools.wraps(original)
    def check_and_init_precision(self: Any) -> Any:
        if not _on_tb(self):
            return original(self)
        # Without CUDA its scaler warns.
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            made = original(self)
        given = any(made is value for value in vars(self).values())
        if given or type(made).__name__ != "MixedPrecision" or made.device != "cuda":
            return made
        return type(made)(made.precision, "tb")

    return check_and_init_precision


def _allow_fsdp(original: Function) -> Function:
    """FSDP is refused for every accelerator but one that is called cuda or gpu."""

    @functools.wraps(original)
    def check_strategy_and_fallback(self: Any) -> None:
        if not _on_tb(self):
            original(self)
            return
        flag, self._accelerator_flag = self._accelerator_flag, "gpu"
        try:
            original(self)
        finally:
            self._accelerator_flag = flag

    return check_strategy_and_fallback


def _log(setup: str, original: Function) -> Function:
    """The lines about devices at the start of a run: what is used is available."""

    @functools.wraps(original)
    def log_device_info(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        if trainer.accelerator.__class__.__name__ != "TBAccelerator":
            return original(trainer, *args, **kwargs)
        module: Any = sys.modules[setup]
        say = module.rank_zero_info

        def say_tb(text: Any, *more: Any, **how: Any) -> None:
            is_ours = str(text).startswith("GPU available: False")
            say("GPU available: True (tb), used: True" if is_ours else text, *more, **how)

        module.rank_zero_info = say_tb
        try:
            return original(trainer, *args, **kwargs)
        finally:
            module.rank_zero_info = say

    return log_device_info


def _device_ids(original: Function) -> Function:
    """Where Lightning numbers a model's device, it makes a stream of CUDA's. A model on one device needs no number."""

    @functools.wraps(original)
    def device_ids(self: Any) -> Any:
        return None if self.root_device.type == "tb" else original(self)

    return device_ids


def _tb_for_cuda(original: Function) -> Function:
    """For a method that does something for CUDA's devices, or names them: tb's in their place where tb is used."""
    on_tb = with_constant(original, "cuda", "tb")

    @functools.wraps(original)
    def method(self: Any) -> Any:
        return (on_tb if tb_is_current() else original)(self)

    return method


def _sharded_scaler(original: Function) -> Function:
    @functools.wraps(original)
    def __init__(self: Any, precision: Any, scaler: Any = None) -> None:
        from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

        if precision != "16-mixed" or scaler is not None or not tb_is_current():
            original(self, precision, scaler)
            return
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # it makes one for CUDA, which is replaced
            original(self, precision)
        self.scaler = ShardedGradScaler("tb")

    return __init__


def _mean(original: Function) -> Function:
    """Lightning averages numbers of samples, which gloo, below a process group for tb, does not."""

    @functools.wraps(original)
    def sync_ddp(result: Any, group: Any = None, reduce_op: Any = None) -> Any:
        import torch

        if result.device.type != "tb" or result.is_floating_point() or reduce_op not in ("mean", "avg"):
            return original(result, group, reduce_op)
        summed = original(result, group, "sum")
        return summed.copy_(summed / torch.distributed.get_world_size(group))

    return sync_ddp


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
