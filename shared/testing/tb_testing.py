"""What the tests of several packages share: slots of the driver's table, work that a test holds back, fresh processes.

A conftest.py puts this folder on sys.path. Nothing here is part of a wheel.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import tb_device
from tb_device import _core

HOST_CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)
OFFSETS = {name: offset for _, _, name, offset in _core.slots()}


def slot(name: str, driver: _core.Driver | None = None) -> Callable[..., int]:
    """A function of the completed table of a driver, of the process's own by default.

    It takes ctypes values after `self` and returns the status.
    """
    driver = driver or tb_device.default_driver()
    address = ctypes.c_void_p.from_address(driver.table_address + OFFSETS[name]).value
    assert address is not None
    function = ctypes.CFUNCTYPE(ctypes.c_int32)(address)
    return lambda *arguments: function(ctypes.c_void_p(driver.self_address), *arguments)


class HostCalls:
    """Python functions that streams call in their order, and gates that hold streams until a test opens them."""

    def __init__(self) -> None:
        self._kept: list[object] = []
        self._gates: list[threading.Event] = []

    def queue(self, stream: ctypes.c_void_p, function: Callable[[], object]) -> None:
        """Runs `function` in the order of the stream."""
        native = HOST_CALL(lambda _user, _status: function() and None)
        self._kept.append(native)
        assert slot("stream_host_call")(stream, native, None) == 0

    def gate(self, stream: ctypes.c_void_p) -> threading.Event:
        """Stops the stream until the returned event is set, 20 s at most."""
        gate = threading.Event()
        self._gates.append(gate)
        self.queue(stream, lambda: gate.wait(20))
        return gate

    def open_gates(self) -> None:
        for gate in self._gates:
            gate.set()


class Python:
    """Fresh Python processes, without any TB_ variables but TB_DRIVER and those that a test sets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.limit = 60  # seconds

    def run(self, code: str, *, path: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs code in the folder; `path` comes first on PYTHONPATH."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith("TB_") or key == "TB_DRIVER"}
        if path is not None:
            clean["PYTHONPATH"] = os.pathsep.join(filter(None, [str(path), clean.get("PYTHONPATH", "")]))
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={**clean, **environment},
            capture_output=True,
            text=True,
            timeout=self.limit,
            cwd=self.folder,
            check=False,
        )

    def output(self, code: str, *, path: Path | None = None, **environment: str) -> str:
        """What the process printed; fails the test unless it ended well and printed no error."""
        done = self.run(code, path=path, **environment)
        assert (done.returncode, done.stderr) == (0, ""), f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout.strip()
