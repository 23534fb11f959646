"""PyTorch's operators for tb devices: generated kernels, hand-written ones, and a CPU fallback that is counted."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import NamedTuple

import torch

from ._build import VERSION, extension_folder

# This comes before the imports of _core, which is in the folder of this torch.
__path__.insert(0, extension_folder(torch.__version__))

from . import _core, _frames, _late_warnings, _origin
from ._core import set_sync_debug_mode, sync_debug_mode
from .fallback_stats import (
    Fallback,
    fallback_budget,
    fallback_mode,
    fallback_report,
    fallbacks,
    force_fallback,
    force_for_good,
    reset_fallbacks,
    set_fallback_mode,
)
from .headers import get_include
from .image_kernels import DeviceKernel, load_kernel
from .operator_backends import OperatorBackend, add_backends
from .vendor_kernels import VendorKernel, add_libraries, vendor_kernels

_core._connect()
_core.set_kernel_folder(str(pathlib.Path(__file__).parent / "device_kernels"))
_core._set_origin_finder(_origin.find)
_core._set_warning_reporter(_late_warnings.report)
_offsets = _frames.find()
if _offsets is not None:
    _core._record_call_sites(_offsets, _origin.find_launch)

__version__ = VERSION


def initialize() -> None:
    """Open the driver and register the kernels that fit it. Idempotent.

    Raises:
        RuntimeError: no driver is usable (the text says what was tried), TB_FALLBACK has an unknown value, or
            TB_FORCE_FALLBACK names an operator that does not exist or cannot run on the CPU.
    """
    if _state.prepare is not None and not _state.initialized:
        _state.prepare()
    mode = os.environ.get("TB_FALLBACK")
    if mode is not None and mode not in ("allow", "warn", "error"):
        raise RuntimeError(f"TB_FALLBACK={mode!r} is not one of allow, warn, error: unset it or choose one")
    if mode is not None and not _state.initialized:
        _core.set_fallback_mode(mode)
    if not _state.libraries_added:
        add_backends()
        add_libraries()
        _state.libraries_added = True
    _core.initialize()
    if not _state.initialized:
        try:
            force_for_good(os.environ.get("TB_FORCE_FALLBACK", ""))
        except (ValueError, NotImplementedError) as error:
            raise RuntimeError(f"TB_FORCE_FALLBACK: {error}") from error
    _state.initialized = True


def prepare_by(function: Callable[[], object]) -> None:
    """Makes initialize() call `function` first, for the package that registers the device type.

    The function prepares what the kernels need and calls initialize(), in which it is called again and returns at once.
    """
    _state.prepare = function


class _State:
    initialized = False
    libraries_added = False
    prepare: Callable[[], object] | None = None


_state = _State()


def native() -> bool:
    """True if the open driver runs closures, and so the CPU's kernels; False if tb-ops' kernels or the fallback run."""
    return _core.native()


def backends() -> list[OperatorBackend]:
    """Every set of operators, in the order in which they register.

    A later set of tb-ops takes only what is still free; one of another package may also replace kernels.
    The counted CPU fallback runs operators that none of them takes.

    Raises:
        RuntimeError: no driver is usable. See initialize(), which this calls.
    """
    initialize()
    return [OperatorBackend(*row) for row in _core.backends()]


class KernelImages(NamedTuple):
    """Where the device kernels that this process has used are from: how many it compiled, and found elsewhere."""

    compiled: int
    found: int
    """In the cache."""
    folder: str
    """The cache's; "" for none."""
    packed: int
    """In packs of images."""


def kernel_images() -> KernelImages:
    """The origin of the device kernels that this process has used. The call compiles nothing."""
    return KernelImages(*_core.kernel_images())


def missing_compiler() -> str:
    """Why tb-ops' kernels do not run although the open driver loads modules, and what to do; "" if they do.

    Raises:
        RuntimeError: no driver is usable. See initialize(), which this calls.
    """
    initialize()
    return _core.missing_compiler()


class AclnnLibrary(NamedTuple):
    """Ascend's library of operators (aclnn), as this process found it."""

    path: str
    """The files that were opened; "" if no library is used."""
    reason: str
    """Why no library is used, and what to do; "" also if the driver's devices are not Ascend's."""
    operators: int
    """How many operators of PyTorch the library runs."""
    missing: tuple[str, ...]
    """Operators that fall back because the library lacks their function, such as "aten::exp.out: aclnnExp"."""


def aclnn_library() -> AclnnLibrary:
    """The library that runs operators on Ascend devices. It is known once the driver is open; see initialize()."""
    path, reason, operators, missing = _core.aclnn_library()
    return AclnnLibrary(path, reason, operators, tuple(missing))


class AclnnExecutors(NamedTuple):
    """Counts of the executors of such a library that are kept to be used again."""

    hits: int
    """Calls that found an executor."""
    misses: int
    dropped: int
    """Executors that were removed because the cache was full, the least recently used first."""
    kept: int
    room: int
    """TB_ACLNN_EXECUTORS, 1024 by default; if it is 0, no executor is kept."""


def aclnn_executors() -> AclnnExecutors:
    """The counts since the process began. Calls whose executor cannot be kept are not counted."""
    return AclnnExecutors(*_core.aclnn_executors())


__all__ = [
    "AclnnExecutors",
    "AclnnLibrary",
    "DeviceKernel",
    "Fallback",
    "KernelImages",
    "OperatorBackend",
    "VendorKernel",
    "aclnn_executors",
    "aclnn_library",
    "backends",
    "fallback_budget",
    "fallback_mode",
    "fallback_report",
    "fallbacks",
    "force_fallback",
    "get_include",
    "initialize",
    "kernel_images",
    "load_kernel",
    "missing_compiler",
    "native",
    "prepare_by",
    "reset_fallbacks",
    "set_fallback_mode",
    "set_sync_debug_mode",
    "sync_debug_mode",
    "vendor_kernels",
]
