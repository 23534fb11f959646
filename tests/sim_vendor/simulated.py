"""Builds the simulated vendor libraries of tests/sim_vendor when they are needed, and calls their control functions."""

from __future__ import annotations

import ctypes
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = {"cuda": "libcuda.so.1", "npu": "libascendcl.so"}
IMAGES = {"cuda": "contract_kernels.image"}  # the contract kit's kernels, compiled for the simulation


def build(name: str) -> Path:
    """Builds tests/sim_vendor/<name> below build/sim_vendor and returns the library; quick if nothing changed.

    Needs meson and ninja in the Python environment. Raises subprocess.CalledProcessError if the build fails.
    """
    folder = ROOT / "build" / "sim_vendor" / name
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    meson = [sys.executable, "-m", "mesonbuild.mesonmain"]
    setup = [*meson, "setup", str(folder), str(ROOT / "tests" / "sim_vendor" / name)]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process of the tests may build the same
        for command in [setup] * (not (folder / "build.ninja").exists()) + [[*meson, "compile", "-C", str(folder)]]:
            subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return folder / FILES[name]


def variables(name: str) -> dict[str, str]:
    """Builds the simulated library of driver `name` and returns the environment of a process that uses it.

    The host's compiler compiles device kernels for the simulated CUDA, from the same sources, through a shim.
    """
    found = {"TB_DRIVER": name, f"TB_{name.upper()}_LIBRARY": str(build(name))}
    if name == "npu":
        found["TB_ACLNN_LIBRARY"] = str(Path(found["TB_NPU_LIBRARY"]).parent / "libopapi.so")
    if name == "cuda":
        folder = ROOT / "tests" / "sim_vendor" / "cuda" / "kernel"
        found["TB_KERNEL_COMPILER"] = "host"
        found["TB_HOST_COMPILER"] = f"c++ -I{folder}"
        found["TB_KERNEL_SHIM"] = str(folder / "device_kernels.h")
    return found


def build_for_torch(name: str) -> Path:
    """Compiles torch_cuda/NAME.cpp for the installed PyTorch and returns the library; quick if that has been done.

    It does not import torch then, which some libraries must be loaded before. Raises subprocess.CalledProcessError if
    the source does not compile, after the compiler's messages.
    """
    source = ROOT / "tests" / "sim_vendor" / "torch_cuda" / f"{name}.cpp"
    library = ROOT / "build" / "sim_vendor" / "torch_cuda" / metadata.version("torch") / f"lib{name}.so"
    changed = max(path.stat().st_mtime for path in source.parent.iterdir())
    if library.exists() and library.stat().st_mtime > changed:
        return library
    import torch
    from torch.utils.cpp_extension import include_paths

    library.parent.mkdir(parents=True, exist_ok=True)
    made = library.with_suffix(f".{os.getpid()}")  # another process may compile the same
    torch_lib = Path(torch.__file__).parent / "lib"
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-O0", "-fPIC", "-shared", "-o", str(made), str(source)]
    command += ["-DUSE_DISTRIBUTED", "-DUSE_C10D_GLOO", *(f"-I{path}" for path in include_paths())]
    command += [f"-L{torch_lib}", f"-Wl,-rpath,{torch_lib}", "-ltorch_cpu", "-lc10"]
    subprocess.run(command, check=True)
    made.rename(library)
    return library


def variables_of_torch_cuda() -> dict[str, str]:
    """As variables("cuda"); the process has to load SIMULATED_BACKEND before it imports torch."""
    return {**variables("cuda"), "SIMULATED_BACKEND": str(build_for_torch("simulated_backend"))}


_AFTER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Control:
    """The control functions (tests/sim_vendor/*/sim_*.h) of a simulated library in this process."""

    def __init__(self, name: str, library: Path) -> None:
        self._prefix = f"tb_sim{name}_"
        self._library = ctypes.CDLL(str(library))

    def _function(self, name: str, result: type | None, *parameters: type) -> ctypes._NamedFuncPointer:
        function = self._library[self._prefix + name]
        function.restype = result
        function.argtypes = parameters
        return function

    def calls(self, function: str | None = None) -> int:
        """The number of calls of one function so far, or of all functions."""
        ask = self._function("calls", ctypes.c_uint64, ctypes.c_char_p)
        return int(ask(function.encode() if function else None))

    def fault(self, function: str | None, nth: int, code: int, *, persistent: bool = False) -> None:
        """Makes the nth call from now on (from 0), of one or of any function, fail with `code`; nth < 0 removes it."""
        ask = self._function("fault", None, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_int32)
        ask(function.encode() if function else None, nth, code, persistent)

    def fail_task(self, nth: int, code: int) -> None:
        """Makes the nth copy or fill that a stream runs from now on fail with `code`."""
        self._function("fail_task", None, ctypes.c_int64, ctypes.c_int32)(nth, code)

    def after(self, function: str, call: Callable[[], None]) -> None:
        """Runs `call` once, after the next call of the function has done its work and before it returns (npu only)."""
        self._after = _AFTER(lambda user: call())  # must be alive until it has run
        ask = self._function("after", None, ctypes.c_char_p, _AFTER, ctypes.c_void_p)
        ask(function.encode(), self._after, None)

    def fired(self) -> tuple[int, str]:
        """How often the fault occurred, and in which function last."""
        where = ctypes.c_char_p()
        count = self._function("fired", ctypes.c_uint64, ctypes.POINTER(ctypes.c_char_p))(ctypes.byref(where))
        return int(count), (where.value or b"").decode()

    def live(self) -> str:
        """The objects that are alive by kind, such as "2 streams"; "" if there are none."""
        text = ctypes.create_string_buffer(1024)
        self._function("live", ctypes.c_uint64, ctypes.c_char_p, ctypes.c_uint64)(text, len(text))
        return text.value.decode()

    def misuse(self) -> str:
        """The first call so far that the real library forbids; "" if there was none."""
        return str(self._function("misuse", ctypes.c_char_p)().decode())
