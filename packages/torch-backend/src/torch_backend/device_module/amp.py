"""torch.tb.amp: automatic mixed precision. The rules and the two operators are tb-amp's."""

from typing import Any

import torch


class autocast(torch.amp.autocast_mode.autocast):
    """torch.autocast("tb", ...)."""

    def __init__(
        self, enabled: bool = True, dtype: torch.dtype | None = None, cache_enabled: bool | None = None
    ) -> None:
        super().__init__("tb", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """torch.amp.GradScaler("tb", ...)."""

    def __init__(self, **options: Any) -> None:
        super().__init__("tb", **options)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that torch.autocast("tb", dtype=...) takes."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True: every driver's operators take bfloat16."""
    return True


__all__ = ["GradScaler", "autocast", "get_amp_supported_dtype", "is_bf16_supported"]
