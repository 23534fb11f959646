"""All state of the Python side: why tb cannot be used, and whether the first use has happened."""

import importlib.util
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_lock = threading.RLock()
_registered = False
_initialized = False
_initializing = False
_failure: str | None = None  # the reason why the registration failed, which is not tried again
_last_failure: str | None = None  # why the last initialization failed, which the next use tries again
_pending: "list[Callable[[], object]]" = []


def set_failure(text: str) -> None:
    """Records the reason why the registration failed."""
    global _failure
    _failure = text


def set_registered() -> None:
    """Records that the extension is loaded and registered with PyTorch."""
    global _registered
    _registered = True


def is_initialized() -> bool:
    """True once the driver is open and the operators are registered, in the process that did it."""
    return _initialized and not in_bad_fork()


def was_used() -> bool:
    """True if the first use has happened, in this process or in one that it was forked from."""
    return _initialized


def in_bad_fork() -> bool:
    """True in a forked child of a process that had used a driver."""
    if not _registered:
        return False
    from torch_backend import _core

    return _core.in_bad_fork()


def failure() -> str | None:
    """Why tb cannot be used, as far as is known without using a device; None if no reason is known."""
    if _failure is not None:
        return _failure
    if not _registered:
        return "torch_backend is still being imported"
    missing = [name for name in ("tb_ops", "tb_amp") if importlib.util.find_spec(name) is None]
    if missing:
        package = missing[0].replace("_", "-")
        return f"torch-backend needs {package}, which is not installed: pip install {package}"
    return _last_failure


def initialize() -> None:
    """Opens the driver and registers the operators: the first use of tb.

    Idempotent and thread-safe. Returns at once if it is called by what it runs itself. RuntimeError: tb cannot be used;
    the text has the reason and the remedy.
    """
    global _initialized, _initializing, _last_failure
    if in_bad_fork():
        raise RuntimeError(_FORK_TEXT)
    if _initialized:
        return
    with _lock:
        if _initialized or _initializing:  # this thread holds the lock already: a recursive call
            return
        _initializing = True
        _last_failure = None
        try:
            _initialize()
            _initialized = True
        except Exception as error:
            _last_failure = str(error) or repr(error)
            raise RuntimeError(
                f"torch.device('tb') cannot be used: {_last_failure}\n"
                f"`python -m torch_backend` shows the whole diagnosis."
            ) from error
        finally:
            _initializing = False


def _initialize() -> None:
    reason = failure()
    if reason is not None:
        raise RuntimeError(reason)
    from torch_backend import _core

    _core._open()
    import tb_amp
    import tb_ops

    tb_amp.make_way()  # a program may have registered tb-amp's operators already; tb-ops registers its own
    _core._unregister_first_use()
    try:
        tb_ops.initialize()
    except Exception:
        _core._register_first_use()
        raise
    tb_amp.register()
    _watch_streams()
    while _pending:  # before any other thread may use tb
        _pending.pop(0)()
    _core._set_ready()


def _watch_streams() -> None:
    import tb_device

    if "races" in tb_device.default_driver().layers:
        from torch_backend.device_module import stream_sanitizer

        stream_sanitizer.watch()


def call_when_initialized(call: "Callable[[], object]", *, replaces_earlier: bool = False) -> None:
    """Runs `call` now if tb is initialized, else at the end of the initialization. For seeds that are set before.

    replaces_earlier: drops earlier calls that have not run, because this one overwrites their effect.
    """
    with _lock:
        if not is_initialized():
            if replaces_earlier:
                _pending.clear()
            _pending.append(call)
            return
    call()


_FORK_TEXT = (
    "tb devices cannot be used in a forked child of a process that has already used them: streams and driver threads "
    "do not survive fork(). Use the 'spawn' start method (torch.multiprocessing.set_start_method('spawn')), or fork "
    "before the first use of a tb device."
)
