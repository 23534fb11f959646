"""The device under test, with or without a device module such as torch.tb."""

from __future__ import annotations

import contextlib
from typing import Any

import torch


def _module(device_type: str) -> Any:
    """torch.<type>. For "lazy", which has none, the module of the backend that runs lazy tensors on tb."""
    if device_type != "lazy":
        return getattr(torch, device_type, None)
    from tb_compile import lazy

    lazy.init()
    return lazy


class Device:
    """The device under test, named as the user names it ("tb", "cuda:1", "cpu")."""

    def __init__(self, name: str) -> None:
        self.device = torch.device(name)
        self.module: Any = _module(self.device.type)
        switch = getattr(self.module, "set_fallback_mode", None)
        if switch is not None and hasattr(self.module, "fallbacks"):
            switch("allow")  # a run counts fallbacks; they neither warn nor raise

    def seed(self, seed: int) -> None:
        """Seeds the CPU's generator and the device's.

        torch.manual_seed would also queue a call, with a formatted traceback, for every missing accelerator.
        """
        torch.default_generator.manual_seed(seed)
        on_device = getattr(self.module, "manual_seed_all", None)
        if on_device is not None and self.device.type != "cpu":
            on_device(seed)

    def synchronize(self) -> None:
        """Waits for the device, so that an error of queued work is raised with the call that queued it."""
        wait = getattr(self.module, "synchronize", None)
        if wait is not None and self.device.type != "cpu":
            wait()

    def drain(self) -> None:
        """Waits for the device and drops the errors of its queued work."""
        with contextlib.suppress(Exception):
            self.synchronize()

    def reset_fallbacks(self) -> None:
        reset = getattr(self.module, "reset_fallbacks", None)
        if reset is not None:
            reset()

    def fallbacks(self) -> list[str] | None:
        """Operators that ran on the CPU since the reset; None if the device does not report them."""
        report = getattr(self.module, "fallbacks", None)
        if report is None or getattr(self.module, "reset_fallbacks", None) is None:
            return None
        return [str(entry.operator) for entry in report()]

    def usable(self) -> bool:
        """Whether the device still computes after a failure."""
        self.drain()
        try:
            return bool((torch.arange(4, device=self.device) + 1).tolist() == [1, 2, 3, 4])
        except Exception:
            return False

    def second(self) -> torch.device | None:
        """Another device of the type, which is not the current one; None if there is one device only."""
        count = getattr(self.module, "device_count", lambda: 1)()
        index = self.device.index or 0
        return torch.device(self.device.type, (index + 1) % count) if count > 1 else None

    def of(self, device: torch.device) -> Device:
        """The same for another device of the type."""
        return Device(str(device))

    def elsewhere(self) -> list[torch.device]:
        """The devices on which a tensor is not beside one of this device: the CPU, and another device of the type."""
        if self.device.type == "cpu":
            return []
        second = self.second()
        return [torch.device("cpu"), *([] if second is None else [second])]

    def facts(self) -> dict[str, Any]:
        """What the report contains about the device."""
        facts: dict[str, Any] = {"torch": torch.__version__, "device": str(self.device)}
        for name in ("device_count", "get_device_name"):
            try:
                facts[name.removeprefix("get_")] = getattr(self.module, name)()
            except Exception:
                continue
        if self.device.type == "tb":
            import tb_ops

            facts["driver"] = str(self.module.get_device_properties(0).driver)
            facts["operators"] = [one.name for one in tb_ops.backends() if one.serves]
        return facts
