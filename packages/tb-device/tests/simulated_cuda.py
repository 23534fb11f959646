"""Fixtures and helpers of the tests that run the CUDA driver on the simulated libcuda."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from ctypes import CFUNCTYPE, c_char_p, c_int32, c_int64, c_uint16, c_uint32, c_uint64, c_void_p
from pathlib import Path

import pytest
from sim_vendor.simulated import ROOT, Control, build
from tb_device import _core

LIST = ROOT / "packages/tb-device/drivers/cuda/functions.inc"
LINE = re.compile(r"CUDA_FUNCTION\((\w+), (\w+), \d+, (\w+),")
# (need, name, symbol) of each function that the driver calls.
FUNCTIONS: list[tuple[str, str, str]] = LINE.findall(LIST.read_text())
OFFSETS = {name: offset for _, _, name, offset in _core.slots()}

SetError = CFUNCTYPE(None, c_int32, c_int64, c_char_p)
Log = CFUNCTYPE(None, c_int32, c_char_p)
Option = CFUNCTYPE(c_void_p, c_char_p)


@pytest.fixture(scope="session")
def library() -> Path:
    return build("cuda")


@pytest.fixture(scope="session")
def image(library: Path) -> Path:
    """The image of the contract kit's kernels that the simulation loads."""
    return library.parent / "contract_kernels.image"


@pytest.fixture
def control(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Control]:
    """The simulated library. Checks before and after the test that none of its objects is alive."""
    monkeypatch.delenv("TB_SIMCUDA_HIDE", raising=False)
    monkeypatch.setenv("TB_CUDA_LIBRARY", str(library))
    control = Control("cuda", library)
    assert control.live() == ""
    yield control
    control.fault(None, -1, 0)
    assert control.live() == ""


class Host(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("abi_major", c_uint16),
        ("abi_minor", c_uint16),
        ("set_error", SetError),
        ("log", Log),
        ("option", Option),
    )


class Failed(Exception):
    """A function of the table failed: .function, .status, .native_code, .text."""

    def __init__(self, function: str, status: int, native_code: int, text: str) -> None:
        super().__init__(f"{function} gave {status}: {text} ({native_code})")
        self.function, self.status, self.native_code, self.text = function, status, native_code, text


class RawDriver:
    """The CUDA driver's own table without tb-device around it. Failures raise Failed; `logged` has the driver's log."""

    def __init__(self, library: Path) -> None:
        self.error = (0, 0, "")
        self.logged: list[str] = []
        self._option = ctypes.create_string_buffer(str(library).encode())
        self._host = Host(ctypes.sizeof(Host), 1, 0, SetError(self._set_error), Log(self._log), Option(self._asked))
        self._table = ctypes.create_string_buffer(4096)
        c_uint32.from_buffer(self._table).value = max(OFFSETS.values()) + 8
        self._self = c_void_p()
        entry = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_void_p)(_core.builtin_entry("cuda"))
        self._check("open", entry(ctypes.byref(self._host), self._table, ctypes.byref(self._self)))

    def _set_error(self, status: int, native_code: int, text: bytes) -> None:
        self.error = (status, native_code, text.decode())

    def _log(self, level: int, text: bytes) -> None:
        self.logged.append(text.decode())

    def _asked(self, key: bytes) -> int | None:
        return ctypes.addressof(self._option) if key == b"library" else None

    def _check(self, function: str, status: int) -> None:
        if status:
            assert self.error[0] == status, f"{function} gave {status} and set the error {self.error}"
            raise Failed(function, status, *self.error[1:])

    def offers(self, function: str) -> bool:
        return bool(c_void_p.from_buffer(self._table, OFFSETS[function]).value)

    def call(self, name: str, *arguments: object) -> None:
        self.error = (0, 0, "")
        address = c_void_p.from_buffer(self._table, OFFSETS[name]).value
        assert address, f"the driver has no {name}"
        self._check(name, CFUNCTYPE(c_int32)(address)(self._self, *arguments))

    def out(self, name: str, *arguments: object) -> c_void_p:
        """Calls a function whose last parameter is an out-pointer; gives the value."""
        value = c_void_p()
        self.call(name, *arguments, ctypes.byref(value))
        return value

    def extension(self, name: str, address: int, *arguments: object) -> None:
        """Calls a function of an extension's table."""
        self.error = (0, 0, "")
        self._check(name, CFUNCTYPE(c_int32)(address)(self._self, *arguments))


def u64(value: int) -> c_uint64:
    return c_uint64(value)
