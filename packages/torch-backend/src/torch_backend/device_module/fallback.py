"""torch.tb: the ledger of operators that ran on the CPU instead of the device. See tb-ops."""

from typing import Any

from torch_backend import _state


def fallbacks() -> Any:
    """The operators that fell back so far: operator, calls, seconds."""
    _state.initialize()
    import tb_ops

    return tb_ops.fallbacks()


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
