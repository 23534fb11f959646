"""Drivers compiled by the tests, calls of raw table functions, and Python processes of their own."""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import tb_device
from tb_device import _core

# The simulated vendor libraries are built from tests/sim_vendor, by the module beside their sources.
sys.path.append(str(Path(__file__).resolve().parents[3] / "tests"))

PROBE = Path(__file__).parent / "drivers" / "probe.c"
OFFSETS = {name: offset for _, _, name, offset in _core.slots()}

BuildDriver = Callable[..., Path]


@pytest.fixture(scope="session")
def build_driver(tmp_path_factory: pytest.TempPathFactory) -> BuildDriver:
    """Compiles tests/drivers/probe.c with -D switches; the same switches give the same file."""
    folder = tmp_path_factory.mktemp("drivers")
    built: dict[tuple[str, ...], Path] = {}

    def build(*switches: str, name: str = "") -> Path:
        key = (name, *switches)
        if key not in built:
            target = folder / f"lib{name or f'probe{len(built)}'}.so"
            compiler = shlex.split(os.environ.get("CC", "cc"))
            flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-shared", "-fPIC"]
            flags += ["-I", tb_device.get_include(), *(f"-D{switch}" for switch in switches)]
            subprocess.run([*compiler, *flags, str(PROBE), "-o", str(target)], check=True)
            built[key] = target
        return built[key]

    return build


class Slots:
    """Functions of a driver's completed table by name; each takes ctypes values after self and returns the status."""

    def __init__(self, driver: _core.Driver) -> None:
        self._driver = driver

    def __getattr__(self, name: str) -> Callable[..., int]:
        address = ctypes.c_void_p.from_address(self._driver.table_address + OFFSETS[name]).value
        assert address is not None
        function = ctypes.CFUNCTYPE(ctypes.c_int32)(address)
        return lambda *arguments: function(ctypes.c_void_p(self._driver.self_address), *arguments)


class Python:
    """A fresh Python process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, code: str, *, path: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        clean = {key: value for key, value in os.environ.items() if not key.startswith("TB_") or key == "TB_DRIVER"}
        if path is not None:
            clean["PYTHONPATH"] = os.pathsep.join(filter(None, [str(path), clean.get("PYTHONPATH", "")]))
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={**clean, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            cwd=self.folder,
            check=False,
        )

    def output(self, code: str, *, path: Path | None = None, **environment: str) -> str:
        """What it printed; fails the test unless it ended well and printed no error."""
        done = self.run(code, path=path, **environment)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.strip()


@pytest.fixture
def python(tmp_path: Path) -> Python:
    return Python(tmp_path)
