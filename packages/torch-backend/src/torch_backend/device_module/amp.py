"""torch.tb.amp: automatic mixed precision from tb-amp, with the names of torch.cuda.amp."""

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from tb_amp import GradScaler, autocast, custom_bwd, custom_fwd


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that torch.autocast("tb", dtype=...) accepts."""
    import tb_amp

    return tb_amp.get_amp_supported_dtype()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether operators accept bfloat16; follows torch.cuda.is_bf16_supported.

    True for every driver: if the device has no bfloat16, it is emulated. including_emulation=False: whether autocast
    offers it.
    """
    return including_emulation or torch.bfloat16 in get_amp_supported_dtype()


def __getattr__(name: str) -> object:
    # Not imported above: torch.tb must be importable if tb-amp is missing or damaged.
    if name in ("GradScaler", "autocast", "custom_bwd", "custom_fwd"):
        import tb_amp

        return getattr(tb_amp, name)
    raise AttributeError(f"module 'torch.tb.amp' has no attribute {name!r}")


__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "get_amp_supported_dtype", "is_bf16_supported"]
