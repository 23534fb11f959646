"""torch.tb: finds operators that wait for the device, as torch.cuda.set_sync_debug_mode does."""

from torch_backend import _state

_MODES = ("default", "warn", "error")


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Selects what happens when an operator waits for the device, such as item() or a copy to the host.

    debug_mode: "default" or 0: nothing. "warn" or 1: a warning with the operator and the line of Python. "error" or 2:
    a RuntimeError with both, instead of the wait. Functions whose purpose is to wait, such as synchronize(), are
    excepted, and so is a kernel's first call with new types. ValueError: another mode.
    """
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise ValueError(f"sync debug mode {debug_mode!r} is not one of {', '.join(_MODES)}")
        debug_mode = _MODES.index(debug_mode)
    if debug_mode not in range(len(_MODES)):
        raise ValueError(f"sync debug mode {debug_mode} is not one of 0 (default), 1 (warn) and 2 (error)")
    _state.initialize()
    import tb_ops

    tb_ops.set_sync_debug_mode(debug_mode)


def get_sync_debug_mode() -> int:
    """The current mode: 0 (default), 1 (warn) or 2 (error)."""
    if not _state.is_initialized():
        return 0
    import tb_ops

    return tb_ops.sync_debug_mode()
