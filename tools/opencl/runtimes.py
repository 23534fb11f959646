"""Implementations of OpenCL for processors, and the variables by which a process finds one of them."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

POCL_ICD = Path("/etc/OpenCL/vendors/pocl.icd")  # of Debian's package pocl-opencl-icd


def system_loader() -> bool:
    """Whether the system has OpenCL's loader."""
    try:
        ctypes.CDLL("libOpenCL.so.1")
    except OSError:
        return False
    return True


def intel(environment: Path, folder: Path) -> dict[str, str]:
    """The variables for Intel's implementation.

    Arguments:
        environment: a virtual environment with the packages intel-opencl-rt and intel-cmplr-lib-rt.
        folder: where the file is written that tells OpenCL's loader of the implementation.

    Raises:
        FileNotFoundError: the environment lacks the packages.
    """
    libraries = environment / "lib"
    library = libraries / "libintelocl.so"
    if not library.exists():
        raise FileNotFoundError(f"{library} is missing: pip install intel-opencl-rt intel-cmplr-lib-rt")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "intel.icd").write_text(f"{library}\n")
    return {"OCL_ICD_VENDORS": str(folder)} | _loader(libraries)


def pocl(folder: Path) -> dict[str, str]:
    """The variables for pocl, as the distribution has it.

    Raises:
        FileNotFoundError: it is not installed.
    """
    if not POCL_ICD.exists():
        raise FileNotFoundError(f"{POCL_ICD} is missing: apt-get install pocl-opencl-icd ocl-icd-libopencl1")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pocl.icd").write_text(POCL_ICD.read_text())
    return {"OCL_ICD_VENDORS": str(folder)}


def _loader(libraries: Path) -> dict[str, str]:
    """Intel's packages bring a loader, too. It finds the libraries beside it by LD_LIBRARY_PATH only."""
    if system_loader():
        return {}
    path = os.pathsep.join(filter(None, [str(libraries), os.environ.get("LD_LIBRARY_PATH", "")]))
    return {"LD_LIBRARY_PATH": path}
