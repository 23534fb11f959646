"""Compiles tb-ops' device kernels with NVRTC, without a GPU: python tools/checks/nvrtc_check.py LIBNVRTC [GROUP...].

The sources are those that the driver sim compiles when it runs tests/backends/device_kernel_cases.py. There this
program is set as the host's compiler: it keeps each source and passes the command on. LIBNVRTC: libnvrtc.so.13 of the
wheel nvidia-cuda-nvrtc, or of a toolkit. The status is 1 if a source does not compile, or if there is none.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import tb_ops

ROOT = Path(__file__).resolve().parents[2]
HEADERS = Path(tb_ops.__file__).parent / "device_kernels"
KEEP = "TB_NVRTC_CHECK_KEEP"
OPTIONS = ["--std=c++20", "--fmad=false", "--device-as-default-execution-space", "--disable-warnings", f"-I{HEADERS}"]


def keep_source(command: list[str]) -> int:
    """Copies the source to the folder that KEEP names, then runs the host's compiler."""
    for word in command:
        if word.endswith(".cpp"):
            source = Path(word).read_bytes()
            (Path(os.environ[KEEP]) / f"{hashlib.sha256(source).hexdigest()}.cu").write_bytes(source)
    return subprocess.run(["c++", *command], check=False).returncode


def collect(folder: Path, groups: list[str]) -> list[str]:
    """The sources of the kernels that these groups of cases use; of all groups if `groups` is empty."""
    compiler = folder / "compiler"
    compiler.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).resolve()} --as-compiler "$@"\n')
    compiler.chmod(0o755)
    environment = {**os.environ, KEEP: str(folder), "TB_DRIVER": "sim", "TB_FALLBACK": "allow", "TB_KERNEL_CACHE": ""}
    environment["TB_HOST_COMPILER"] = str(compiler)
    if not groups:
        sys.path.insert(0, str(ROOT / "tests"))
        from backends.device_kernel_cases import GROUPS

        groups = list(GROUPS)
    for group in groups:
        command = [sys.executable, str(ROOT / "tests" / "backends" / "device_kernel_cases.py"), group]
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return [path.read_text() for path in sorted(folder.glob("*.cu"))]


class Nvrtc:
    """The library, as nvrtc_compiler.cpp uses it."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)

    def compile(self, source: str, architecture: str) -> str | None:
        """Compiles a source. Returns None, or the compiler's messages if it fails."""
        program = ctypes.c_void_p()
        library = self.library
        if library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None):
            raise RuntimeError("nvrtcCreateProgram failed")
        options = [option.encode() for option in (*OPTIONS, f"--gpu-architecture={architecture}")]
        status = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        size = ctypes.c_size_t()
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value + 1)
        library.nvrtcGetProgramLog(program, text)
        library.nvrtcDestroyProgram(ctypes.byref(program))
        return text.value.decode() or f"status {status}" if status else None


def main() -> int:
    if sys.argv[1:2] == ["--as-compiler"]:
        return keep_source(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", metavar="LIBNVRTC")
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    parser.add_argument("--arch", default="sm_90")
    asked = parser.parse_args()
    nvrtc = Nvrtc(asked.library)
    with tempfile.TemporaryDirectory() as scratch:
        sources = collect(Path(scratch), asked.groups)
    failures = [(source, said) for source in sources if (said := nvrtc.compile(source, asked.arch)) is not None]
    for source, said in failures:
        print(f"{source}{said}")
    print(f"{len(sources)} sources for {asked.arch}, {len(failures)} do not compile")
    return 1 if failures or not sources else 0


if __name__ == "__main__":
    sys.exit(main())
