"""PyTorch's operators for tb devices: generated kernels, hand-written ones, and a CPU fallback that is counted."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch

from ._build import TORCH_MINOR, VERSION

_installed = ".".join(torch.__version__.split("+")[0].split(".")[:2])
if _installed != TORCH_MINOR:
    raise ImportError(
        f"tb-ops {VERSION} was built for torch {TORCH_MINOR}, but torch {torch.__version__} is installed: "
        f"pip install 'torch=={TORCH_MINOR}.*', or a tb-ops built for torch {_installed}"
    )

from . import _core  # noqa: E402 (only once the version is known to fit)

_core._connect()

__version__ = VERSION


@dataclass(frozen=True)
class Fallback:
    """One line of the ledger: an operator that ran on the CPU because the device has no kernel for it."""

    operator: str
    """Name with overload, as in "aten::std.correction"."""
    calls: int
    seconds: float
    """Wall time of the calls, the wait for the stream included."""


def initialize() -> None:
    """Open the driver and register the kernels that fit it. Idempotent.

    Raises:
        RuntimeError: no driver is usable (the text says what was tried), or TB_FALLBACK has an unknown value.
    """
    mode = os.environ.get("TB_FALLBACK")
    if mode is not None and mode not in ("allow", "warn", "error"):
        raise RuntimeError(f"TB_FALLBACK={mode!r} is not one of allow, warn, error: unset it or choose one")
    if mode is not None and not _state.initialized:
        _core.set_fallback_mode(mode)
    _core.initialize()
    _state.initialized = True


class _State:
    initialized = False


_state = _State()


def native() -> bool:
    """True when the open driver runs the native kernels; False when every operator goes through the fallback."""
    return _core.native()


def fallbacks() -> list[Fallback]:
    """The ledger of CPU fallbacks since the start or the last reset, most time first."""
    return [Fallback(*entry) for entry in _core.fallbacks()]


def reset_fallbacks() -> None:
    """Empty the ledger. Operators that have warned do not warn again."""
    _core.reset_fallbacks()


def set_fallback_mode(mode: str) -> None:
    """What an operator without a kernel does: "allow" it, "warn" once per operator, or raise an "error".

    Raises:
        ValueError: another mode.
    """
    _core.set_fallback_mode(mode)


def fallback_mode() -> str:
    """The mode in force: "allow", "warn" or "error"."""
    return _core.fallback_mode()


__all__ = [
    "Fallback",
    "fallback_mode",
    "fallbacks",
    "initialize",
    "native",
    "reset_fallbacks",
    "set_fallback_mode",
]
