"""Where the OpenCL driver is; tb-device asks through the entry point `opencl` of the group tb_device.drivers."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_NODES = ("dri/renderD*", "kfd", "kgsl*", "mali*", "pvr*", "accel/accel*")
_VENDOR = 0x0903  # CL_PLATFORM_VENDOR
_ACCELERATORS = 0x4 | 0x8  # CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ACCELERATOR


def library() -> str:
    """The path of the driver's library."""
    return str(Path(__file__).parent / "libtb_opencl.so")


def score() -> float:
    """1 where OpenCL has a GPU or an accelerator. Elsewhere -1, and the driver is chosen only by its name."""
    return 1.0 if _implementations() and _nodes() and _has_accelerator() else -1.0


def _implementations() -> bool:
    """Whether an implementation of OpenCL is registered. Without one OpenCL's loader is not touched."""
    folder = Path(os.environ.get("OCL_ICD_VENDORS") or "/etc/OpenCL/vendors")
    return folder.is_file() or (folder.is_dir() and any(folder.glob("*.icd")))


def _nodes() -> bool:
    """Whether the kernel has a GPU or an accelerator. Without one implementations for processors are not loaded."""
    if os.environ.get("TB_OPENCL_LIBRARY"):
        return True
    return any(True for name in _NODES for _ in Path("/dev").glob(name))


def _has_accelerator() -> bool:
    try:
        opencl = ctypes.CDLL(os.environ.get("TB_OPENCL_LIBRARY") or "libOpenCL.so.1")
        platforms, count = (ctypes.c_void_p * 16)(), ctypes.c_uint()
        if opencl.clGetPlatformIDs(16, platforms, ctypes.byref(count)) != 0:
            return False
        found = ctypes.c_uint()
        vendor = ctypes.create_string_buffer(256)
        for platform in platforms[: min(count.value, 16)]:
            opencl.clGetPlatformInfo(ctypes.c_void_p(platform), _VENDOR, ctypes.c_size_t(255), vendor, None)
            if vendor.value.startswith(b"NVIDIA"):
                continue  # the driver cuda serves its devices better
            kinds = ctypes.c_uint64(_ACCELERATORS)
            code = opencl.clGetDeviceIDs(ctypes.c_void_p(platform), kinds, 0, None, ctypes.byref(found))
            if code == 0 and found.value:
                return True
    except (OSError, AttributeError):  # no loader, or none that works: the driver says so when it is named
        pass
    return False


def contract_kernels() -> str:
    """The file of the contract's kernels: tb-device contract --driver opencl --image FILE."""
    return str(Path(__file__).with_name("contract_kernels.cl"))
