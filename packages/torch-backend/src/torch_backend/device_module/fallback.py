"""torch.tb: the ledger of operators that ran on the CPU instead of the device. The texts in full are tb-ops' own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch_backend import _state


def fallbacks() -> Any:
    """The operators that fell back so far: operator, calls, seconds, bytes, first call. Most time first."""
    _state.initialize()
    import tb_ops

    return tb_ops.fallbacks()


def fallback_report(limit: int = 20) -> str:
    """What to implement next, as a text: the dearest fallbacks since the ledger was reset, with their shares."""
    _state.initialize()
    import tb_ops

    return tb_ops.fallback_report(limit)


def reset_fallbacks() -> None:
    """Empties the ledger."""
    _state.initialize()
    import tb_ops

    tb_ops.reset_fallbacks()


def set_fallback_mode(mode: str) -> None:
    """ "allow" counts, "warn" (the default) also warns once per operator, "error" raises. Overrides TB_FALLBACK."""
    _state.initialize()
    import tb_ops

    tb_ops.set_fallback_mode(mode)


@contextlib.contextmanager
def fallback_budget(calls: int) -> Iterator[None]:
    """Raises NotImplementedError at the first fallback beyond `calls` inside the block, on whichever thread."""
    _state.initialize()
    import tb_ops

    with tb_ops.fallback_budget(calls):
        yield


@contextlib.contextmanager
def force_fallback(*operators: str) -> Iterator[None]:
    """Runs "aten::add.Tensor" and the like on the CPU inside the block, counted. ValueError: no such operator."""
    _state.initialize()
    import tb_ops

    with tb_ops.force_fallback(*operators):
        yield
