"""Fresh processes on Intel's implementation of OpenCL, which is one of this package's test requirements."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "shared" / "testing"))
sys.path.append(str(ROOT / "tools"))

from opencl import runtimes  # noqa: E402
from tb_testing import Python  # noqa: E402

__all__ = ["Library", "Python", "lines"]

Library = Callable[[str], Path]

START = """
import ctypes, sys
sys.path += {folders!r}
import tb_device
import tb_testing
driver = tb_device.load_driver("opencl")
def slot(name):
    return tb_testing.slot(name, driver)
[device] = driver.devices()
stream = ctypes.c_void_p()
assert slot("stream_default")(0, ctypes.byref(stream)) == 0
def attempt(name, function):
    try:
        function()
        print(name, "worked")
    except tb_device.Error as error:
        print(name, type(error).__name__, error)
"""


def lines(python: Python, environment: dict[str, str], code: str) -> list[str]:
    """What a program prints that calls the driver's functions by slot(), with `device` and its default `stream`."""
    folders = [str(ROOT / "shared" / "testing"), str(ROOT / "packages" / "tb-device" / "tests")]
    return python.output(START.format(folders=folders) + code, **environment).splitlines()


@pytest.fixture(scope="session")
def intel(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables for Intel's implementation."""
    return {"TB_DRIVER": "opencl"} | runtimes.intel(Path(sys.prefix), tmp_path_factory.mktemp("vendors"))


@pytest.fixture
def python(tmp_path: Path) -> Python:
    return Python(tmp_path)


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """Compiles C code to a shared library. It links OpenCL's loader, whose functions it may replace."""

    def build(code: str) -> Path:
        source, target = tmp_path / "library.c", tmp_path / "library.so"
        source.write_text(code)
        # The loader has no file for linking without its development package.
        link = ["-Wl,--no-as-needed", _loader(), "-ldl"]
        command = [*shlex.split("cc -shared -fPIC -Wall -Werror -o"), str(target), str(source), *link]
        subprocess.run(command, check=True)
        return target

    return build


def _loader() -> str:
    if not runtimes.system_loader():
        return str(Path(sys.prefix) / "lib" / "libOpenCL.so.1")
    for line in subprocess.run(
        ["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        if "libOpenCL.so.1 " in line:
            return line.split("=> ")[1]
    raise FileNotFoundError("libOpenCL.so.1 is loaded from a folder that ldconfig does not list")
