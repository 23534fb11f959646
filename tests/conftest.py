"""Fixtures of the integration tests: fresh interpreters, compiled drivers, and checks after each test."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sysconfig
import textwrap
from collections.abc import Callable, Iterator, Mapping

import pytest
from fork_server import run_program

ROOT = pathlib.Path(__file__).resolve().parents[1]

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run_python() -> RunPython:
    """Runs code in a fresh interpreter, without TB_ variables except TB_DRIVER and those of `env`."""

    def run(
        code: str, env: Mapping[str, str] | None = None, check: bool = True, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("TB_") or k == "TB_DRIVER"}
        clean.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
        done = run_program(textwrap.dedent(code), {**clean, **(env or {})}, timeout=timeout)
        assert not check or done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run


def compile_c(source: pathlib.Path, library: pathlib.Path, *options: str) -> None:
    """Compiles a C file to a shared library with the shared headers. Warnings are errors."""
    command = [os.environ.get("CC", "cc"), "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-shared", "-fPIC"]
    command += [f"-I{ROOT / 'shared' / 'include'}", "-o", str(library), str(source), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def compile_extension(source: pathlib.Path, library: pathlib.Path, *options: str) -> None:
    """Compiles a C++ file to an extension module with PyTorch's and Python's headers. Warnings are errors."""
    from torch.utils import cpp_extension

    command = [*os.environ.get("CXX", "c++").split(), "-std=c++20", "-O0", "-shared", "-fPIC", "-Wall", "-Wextra"]
    command += ["-Werror", *options]
    command += ["-isystem" + path for path in [*cpp_extension.include_paths(), sysconfig.get_path("include")]]
    command += ["-o", str(library), str(source), *(f"-L{path}" for path in cpp_extension.library_paths())]
    subprocess.run([*command, "-lc10", "-ltorch_cpu"], check=True)


def write_metadata(folder: pathlib.Path, name: str, entry_points: str) -> None:
    """Makes a folder on sys.path look as if a distribution with these entry points was installed there."""
    metadata = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(entry_points)


@pytest.fixture
def compile_driver(tmp_path: pathlib.Path) -> Callable[[pathlib.Path], pathlib.Path]:
    """Compiles a C file to a driver library with the shared headers. Warnings are errors."""

    def compile_one(source: pathlib.Path) -> pathlib.Path:
        library = tmp_path / f"{source.stem}.so"
        compile_c(source, library, "-Wno-unused-parameter")  # a driver need not use every argument of the table
        return library

    return compile_one


@pytest.fixture
def no_fallbacks() -> Iterator[None]:
    """Fails the test if an operator fell back to the CPU while it ran."""
    import torch

    def calls() -> dict[str, int]:
        return {row.operator: row.calls for row in torch.tb.fallbacks()}  # type: ignore[attr-defined]

    before = calls()
    yield
    fallen = {name: n - before.get(name, 0) for name, n in calls().items() if n > before.get(name, 0)}
    assert not fallen, f"operators that fell back: {fallen}"


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Sets one thread for kernels, also on autograd's thread for the device, which has a thread count of its own."""
    import torch

    def set_num_threads(count: int) -> None:
        torch.set_num_threads(count)
        result = torch.ones(1, device="tb", requires_grad=True) * 2
        result.register_hook(lambda _: torch.set_num_threads(count))  # type: ignore[no-untyped-call]
        torch.autograd.backward(result)

    before = torch.get_num_threads()
    set_num_threads(1)
    yield
    set_num_threads(before)


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    """Drops all compiled code before the test and after it."""
    import tb_compile
    import torch

    torch.compiler.reset()
    tb_compile.reset()
    yield
    torch.compiler.reset()


@pytest.fixture(autouse=True)
def dispatch_as_before() -> Iterator[None]:
    """Fails a test that leaves thread-local dispatch keys changed, since later tests would call other kernels."""
    import torch

    def keys() -> tuple[str, str]:
        return str(torch._C._dispatch_tls_local_include_set()), str(torch._C._dispatch_tls_local_exclude_set())

    before = keys()
    yield
    assert keys() == before
