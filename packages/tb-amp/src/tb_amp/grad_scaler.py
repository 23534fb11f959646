"""A GradScaler whose steps do not wait for the device to know whether gradients overflowed."""

import warnings
from typing import Any, cast
from weakref import WeakSet

import torch
from torch.amp.grad_scaler import GradScaler as _GradScaler

from .undo import Change, Undo

# The optimizers whose fused kernels skip the step themselves, and those kernels.
_FUSED = {
    torch.optim.SGD: "_fused_sgd_",
    torch.optim.Adam: "_fused_adam_",
    torch.optim.AdamW: "_fused_adamw_",
    torch.optim.Adagrad: "_fused_adagrad_",
}


class GradScaler(_GradScaler):
    """torch.amp.GradScaler for the PrivateUse1 device of any name, without a wait in every step.

    Arguments, apart from the device, and results are those of PyTorch's class, which reads `found_inf` to decide
    whether it calls `optimizer.step()`. This class always calls the step, which has no effect if gradients overflowed:

    - SGD, Adam, AdamW and Adagrad without a choice of `fused` or `foreach` become `fused=True` if the device has the
      kernel, which reads `found_inf` itself.
    - After the step of any other optimizer, a selection on the device restores the old values. Copies of parameters and
      state take memory during the step.
    - Two kinds of step wait, as in PyTorch's class: the first, which makes the optimizer's state, and one that changes
      numbers on the host (a warning says so once for each optimizer).

    `step()` returns what `optimizer.step()` returned, also if the step had no effect.
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        device = torch._C._get_privateuse1_backend_name()
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self._waiting: WeakSet[torch.optim.Optimizer] = WeakSet()  # those that change numbers on the host

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_waiting": WeakSet()}

    def step(self, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> float | None:
        """Unscales the gradients unless unscale_() did, and calls `optimizer.step(*args, **kwargs)`.

        The step has no effect if a gradient is infinite or NaN. RuntimeError: as from torch.amp.GradScaler.step.
        """
        if self._enabled:
            _prefer_fused(optimizer, self._device)
        if not (self._enabled and _makes_momentum(optimizer)):
            return super().step(optimizer, *args, **kwargs)
        # If the fused kernel skipped this step, the new momentum buffers would keep the uninitialised memory of
        # empty_like().
        supports = getattr(optimizer, "_step_supports_amp_scaling", False)
        optimizer._step_supports_amp_scaling = False  # type: ignore[attr-defined]
        try:
            return super().step(optimizer, *args, **kwargs)
        finally:
            optimizer._step_supports_amp_scaling = supports  # type: ignore[attr-defined]

    def _maybe_opt_step(
        self, optimizer: torch.optim.Optimizer, optimizer_state: dict[str, Any], *args: Any, **kwargs: Any
    ) -> float | None:
        if optimizer in self._waiting:
            return super()._maybe_opt_step(optimizer, optimizer_state, *args, **kwargs)
        found_inf = _any(optimizer_state["found_inf_per_device"])
        undo = Undo(optimizer, self._device)
        result = cast("float | None", optimizer.step(*args, **kwargs))
        change = undo.change()
        if change is Change.VALUES:
            undo.where(found_inf)
        elif found_inf.item():
            undo.everything()
        if change is Change.HOST:
            self._waiting.add(optimizer)
            _warn_of_waits(optimizer)
        return result


def _any(found_inf_per_device: dict[torch.device, torch.Tensor]) -> torch.Tensor:
    first, *others = found_inf_per_device.values()
    for other in others:
        first = first + other.to(first.device, non_blocking=True)
    return first != 0


def _prefer_fused(optimizer: torch.optim.Optimizer, device_type: str) -> None:
    """Makes an optimizer `fused=True` if its user made no choice and the device has the kernel."""
    kernel = _FUSED.get(type(optimizer))
    if kernel is None or getattr(optimizer, "_step_supports_amp_scaling", False):
        return
    if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{kernel}", "PrivateUse1"):
        return
    for group in optimizer.param_groups:
        if group["foreach"] is not None or group["fused"] is False:
            return
        if group["differentiable"] or group.get("capturable"):
            return
        for parameter in group["params"]:
            if parameter.device.type != device_type or not parameter.is_floating_point():
                return
            if parameter.grad is not None and parameter.grad.layout is not torch.strided:
                return
    for group in optimizer.param_groups:
        group["fused"] = True
    for parameter, state in optimizer.state.items():
        if "step" in state:  # the kernel counts steps on the device
            state["step"] = torch.as_tensor(state["step"], dtype=torch.float32).to(parameter.device)
    optimizer._step_supports_amp_scaling = True  # type: ignore[attr-defined]


def _makes_momentum(optimizer: torch.optim.Optimizer) -> bool:
    return isinstance(optimizer, torch.optim.SGD) and any(
        parameter.grad is not None and optimizer.state.get(parameter, {}).get("momentum_buffer") is None
        for group in optimizer.param_groups
        if group["momentum"]
        for parameter in group["params"]
    )


def _warn_of_waits(optimizer: torch.optim.Optimizer) -> None:
    name = type(optimizer).__name__
    capturable = any("capturable" in group for group in optimizer.param_groups)
    remedy = f"Make it {name}(..., capturable=True)" if capturable else "Choose one that keeps them on the device"
    warnings.warn(
        f"GradScaler: {name} changes numbers on the host in each step, so each step waits for the device to know "
        f"whether gradients overflowed. {remedy} and no step waits",
        stacklevel=5,  # the caller of step()
    )
