"""The programs of peers/*.cpp, compiled when the benchmark runs. Each measures one allocator, in the same loops."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import libraries
from .libraries import Unavailable

ROOT = Path(__file__).resolve().parents[3]
SOURCES = Path(__file__).parent / "peers"
CUDART = ROOT / "tests" / "sim_vendor" / "cudart"
PACKAGE = ROOT / "packages" / "tb-allocator"
OURS = "tb-allocator"
RMM = "RMM pool"
PAGES = "expandable_segments:True"


@dataclass(frozen=True)
class Program:
    """An executable and the environment that chooses the allocator's mode."""

    path: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, *arguments: str) -> dict[str, float]:
        """Runs the program and returns the figures that it prints. RuntimeError with its message if it fails."""
        figures: dict[str, float] = json.loads(self._completed([], arguments).stdout)
        return figures

    def run_under(self, tool: list[str], *arguments: str) -> str:
        """Runs the program under a tool and returns the standard error of both. RuntimeError if it fails."""
        return self._completed(tool, arguments).stderr

    def _completed(self, tool: list[str], arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("TB_", "PYTORCH_"))}
        command = [*tool, str(self.path), *arguments]
        done = subprocess.run(
            command, env={**clean, **self.environment}, capture_output=True, text=True, timeout=600, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{self.path.name} {' '.join(arguments)}: {done.stderr.strip()[-400:]}")
        return done


class Builder:
    """Compiles programs and libraries into a folder. A file that is newer than its sources is not compiled again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.libraries = folder / "libraries"
        self.compiler = shutil.which("g++") or shutil.which("clang++") or ""
        folder.mkdir(parents=True, exist_ok=True)

    def compile(self, target: str, sources: list[Path], options: list[str]) -> Path:
        """Compiles a target if necessary and returns its path. Raises Unavailable with the compiler's first error."""
        if not self.compiler:
            raise Unavailable("there is no C++ compiler")
        made = self.folder / target
        inputs = [*sources, *(Path(option) for option in options if option.endswith(".a")), *SOURCES.glob("*.h")]
        if made.exists() and made.stat().st_mtime > max(path.stat().st_mtime for path in inputs):
            return made
        command = [self.compiler, "-std=c++20", "-O3", "-DNDEBUG", "-pthread"]
        done = subprocess.run(
            [*command, *map(str, sources), *options, "-o", str(made)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if "error" in line or "undefined" in line]
            raise Unavailable(f"{target} does not compile: {(errors or ['no message'])[0]}")
        return made

    def program(self, name: str, options: list[str], linked: list[Path]) -> Path:
        """Compiles peers/NAME.cpp. The program loads shared libraries from the folders that they were linked from."""
        folders = [PACKAGE / "src", ROOT / "shared" / "include", ROOT / "shared" / "component", SOURCES]
        options = [*(f"-I{folder}" for folder in folders), *options, *map(str, linked)]
        options += [f"-Wl,-rpath,{library.parent}" for library in linked if ".so" in library.name]
        sources = [SOURCES / f"{name}.cpp"]
        if not any(library.suffix == ".a" for library in linked):
            sources.append(PACKAGE / "src" / "replay" / "trace.cpp")
        return self.compile(name, sources, options)

    def cuda_headers(self) -> list[str]:
        place = libraries.wheels(self.libraries / "cuda", libraries.CUDA_HEADERS)
        return ["-isystem", str(place / "nvidia" / "cu13" / "include")]

    def cudart(self) -> Path:
        """Compiles and checks the emulated CUDA runtime."""
        name = "libcudart.so.13"
        link = [f"-Wl,-soname,{name}", f"-Wl,--version-script={CUDART / 'libcudart.map'}"]
        options = ["-shared", "-fPIC", "-fvisibility=hidden", *link, *self.cuda_headers()]
        library = self.compile(name, sorted(CUDART.glob("*.cpp")), options)
        check = self.compile(
            "cudart_check",
            [SOURCES / "cudart_check.cpp"],
            [f"-I{CUDART}", *self.cuda_headers(), str(library), f"-Wl,-rpath,{library.parent}"],
        )
        subprocess.run([str(check)], check=True)  # with a wrong emulation all figures would be wrong
        return library

    def rmm(self) -> Path:
        place = libraries.wheels(self.libraries / "rmm", libraries.RMM)
        include = place / "librmm" / "include"
        folders = [include, include / "rapids", place / "rapids_logger" / "include"]
        options = [part for folder in folders for part in ("-isystem", str(folder))]
        options += ["-DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE", *self.cuda_headers()]
        own = [place / "librmm" / "lib64" / "librmm.so", place / "rapids_logger" / "lib64" / "librapids_logger.so"]
        return self.program("rmm", options, [self.cudart(), *own])

    def torch(self) -> Path:
        place = libraries.wheels(self.libraries / "torch", libraries.TORCH, libraries.TORCH_PARTS) / "torch"
        options = ["-isystem", str(place / "include"), *self.cuda_headers()]
        return self.program(
            "torch", options, [self.cudart(), place / "lib" / "libc10.so", place / "lib" / "libc10_cuda.so"]
        )


def devices(builder: Builder, ours: Path) -> tuple[dict[str, Program], dict[str, str]]:
    """The programs that measure device memory by name, ours first; and for each missing one the reason."""
    made = {OURS: Program(builder.program("tb", [], [ours]), {"TB_ALLOC_CONF": PAGES})}
    expandable = {"PYTORCH_CUDA_ALLOC_CONF": PAGES}
    peers: dict[str, tuple[Callable[[], Path], Mapping[str, str]]] = {
        "torch": (builder.torch, {}),
        "torch expandable": (builder.torch, expandable),
        RMM: (builder.rmm, {}),
    }
    missing = {}
    for name, (build, environment) in peers.items():
        try:
            made[name] = Program(build(), environment)
        except Unavailable as error:
            missing[name] = str(error)
    return made, missing


def hosts(builder: Builder) -> tuple[dict[str, Program], dict[str, str]]:
    """The programs that measure host memory by name; and for each missing one the reason."""
    program = builder.program("host", [], [])
    made = {"malloc": Program(program)}
    missing = {}
    for name in libraries.HOST_ALLOCATORS:
        try:
            library = libraries.host_allocator(builder.libraries / name, name)
            made[name] = Program(program, {"LD_PRELOAD": str(library)})
        except Unavailable as error:
            missing[name] = str(error)
    return made, missing
