"""Drivers that tests compile, calls of raw table functions, and separate Python processes."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tb_device
from tb_device import _core

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared" / "testing"))
# tests/sim_vendor has the sources of the simulated vendor libraries and the module that builds them.
sys.path.append(str(Path(__file__).resolve().parents[3] / "tests"))

from tb_testing import OFFSETS, Python, slot

__all__ = ["OFFSETS", "BuildDriver", "Python", "Slots"]

PROBE = Path(__file__).parent / "drivers" / "probe.c"
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
        return slot(name, self._driver)


@pytest.fixture
def python(tmp_path: Path) -> Python:
    return Python(tmp_path)
