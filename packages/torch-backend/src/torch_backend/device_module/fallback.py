"""torch.tb: statistics of fallbacks, operators that ran on the CPU instead of the device. tb-ops collects them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch_backend import _state


def fallbacks() -> Any:
    """The operators that fell back since the start or reset_fallbacks(), in the order of their time, longest first.

    Each entry has the operator, the number of calls, seconds, bytes copied, and where it was called first. The list
    prints one line for each.
    """
    _state.initialize()
    import tb_ops

    return tb_ops.fallbacks()


def fallback_report(limit: int = 20) -> str:
    """A text for people who write kernels: the `limit` most expensive fallbacks and their shares of the time."""
    _state.initialize()
    import tb_ops

    return tb_ops.fallback_report(limit)


def reset_fallbacks() -> None:
    """Sets the fallback statistics to zero."""
    _state.initialize()
    import tb_ops

    tb_ops.reset_fallbacks()


def set_fallback_mode(mode: str) -> None:
    """Selects what a fallback does, instead of the variable TB_FALLBACK.

    mode: "allow" counts it, "warn" (the default) also warns once for each operator, "error" raises NotImplementedError.
    ValueError: another mode.
    """
    _state.initialize()
    import tb_ops

    tb_ops.set_fallback_mode(mode)


@contextlib.contextmanager
def fallback_budget(calls: int) -> Iterator[None]:
    """Context manager: NotImplementedError at the first fallback beyond `calls` inside the block, on any thread."""
    _state.initialize()
    import tb_ops

    with tb_ops.fallback_budget(calls):
        yield


@contextlib.contextmanager
def force_fallback(*operators: str) -> Iterator[None]:
    """Context manager: runs these operators on the CPU inside the block, as counted fallbacks.

    operators: full names, such as "aten::add.Tensor". ValueError: there is no such operator.
    """
    _state.initialize()
    import tb_ops

    with tb_ops.force_fallback(*operators):
        yield
