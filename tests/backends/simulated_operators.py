"""Calls the simulated libopapi through its C functions, for tests without torch."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sim_vendor.simulated import Control

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
TYPES = {
    "float32": 0,
    "float16": 1,
    "int8": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 6,
    "int64": 9,
    "float64": 11,
    "bool": 12,
}
BFLOAT16 = 27
NULL, PARAMETER, NO_CONTEXT, CORE_EXCEPTION = 161001, 161002, 107002, 507015
Array = np.ndarray[Any, Any]
Argument = Any  # a Tensor, a ctypes number, a pointer or None


class Tensor:
    """An aclTensor, and the device memory of its elements."""

    def __init__(self, npu: Npu, values: Array, type_: int | None = None) -> None:
        self._npu, self._like = npu, values
        base = values if values.base is None else values.base
        storage = base if isinstance(base, np.ndarray) else values
        self.size = max(storage.nbytes, 1)
        self.memory = npu.allocate(self.size)
        self._storage = np.ascontiguousarray(storage)
        npu.copy_in(self.memory, self._storage)
        offset = (values.ctypes.data - storage.ctypes.data) // values.itemsize
        dims = (ctypes.c_int64 * values.ndim)(*values.shape)
        strides = (ctypes.c_int64 * values.ndim)(*(step // values.itemsize for step in values.strides))
        whole = (ctypes.c_int64 * 1)(storage.size)
        create = npu.function("aclCreateTensor", ctypes.c_void_p)
        rank = ctypes.c_uint64(values.ndim)
        type_ = TYPES[values.dtype.name] if type_ is None else type_
        self.handle = ctypes.c_void_p(
            create(dims, rank, type_, strides, ctypes.c_int64(offset), 2, whole, ctypes.c_uint64(1), self.memory)
        )
        assert self.handle.value, npu.text()

    def numbers(self) -> Array:
        """The current elements, copied to the host."""
        storage = np.empty_like(self._storage)
        self._npu.copy_out(storage, self.memory)
        like, first = self._like, self._like if self._like.base is None else self._like.base
        offset = like.ctypes.data - first.ctypes.data if isinstance(first, np.ndarray) else 0
        found: Array = np.ndarray(like.shape, like.dtype, storage.tobytes(), offset, like.strides)
        return found

    def destroy(self, *, memory: bool = True) -> None:
        """Destroys the description and frees the memory."""
        assert self._npu.function("aclDestroyTensor")(self.handle) == 0
        if memory:
            assert self._npu.function("aclrtFree")(self.memory) == 0


class Npu:
    """Both libraries, initialised, with device 0 current on this thread."""

    def __init__(self, runtime: Path) -> None:
        self._libraries = [ctypes.CDLL(str(runtime)), ctypes.CDLL(str(runtime.parent / "libopapi.so"))]
        self.control = Control("npu", runtime)
        self._kept: list[Tensor] = []
        assert self.function("aclInit")(None) == 0
        assert self.function("aclrtSetDevice")(0) == 0

    def function(self, name: str, result: Any = ctypes.c_int32) -> Any:
        """The C function. AttributeError: neither library has it."""
        for library in self._libraries:
            try:
                found = library[name]
            except AttributeError:
                continue
            found.restype = result
            return found
        raise AttributeError(name)

    def text(self) -> str:
        """The text of the last failure on this thread."""
        return (self.function("aclGetRecentErrMsg", ctypes.c_char_p)() or b"").decode()

    def allocate(self, size: int) -> ctypes.c_void_p:
        memory = ctypes.c_void_p()
        assert self.function("aclrtMalloc")(ctypes.byref(memory), ctypes.c_size_t(size), 0) == 0, self.text()
        return memory

    def copy_in(self, memory: ctypes.c_void_p, values: Array) -> None:
        size = ctypes.c_size_t(values.nbytes)
        if values.nbytes:
            copy = self.function("aclrtMemcpy")
            assert copy(memory, size, ctypes.c_void_p(values.ctypes.data), size, HOST_TO_DEVICE) == 0, self.text()

    def copy_out(self, values: Array, memory: ctypes.c_void_p) -> None:
        size = ctypes.c_size_t(values.nbytes)
        if values.nbytes:
            copy = self.function("aclrtMemcpy")
            assert copy(ctypes.c_void_p(values.ctypes.data), size, memory, size, DEVICE_TO_HOST) == 0, self.text()

    def tensor(self, values: Array, type_: int | None = None) -> Tensor:
        """A tensor with these values, which close() destroys."""
        self._kept.append(Tensor(self, values, type_))
        return self._kept[-1]

    def scalar(self, value: float) -> ctypes.c_void_p:
        """An aclScalar of a double or an int64."""
        number = ctypes.c_int64(value) if isinstance(value, int) else ctypes.c_double(value)
        type_ = TYPES["int64" if isinstance(value, int) else "float64"]
        return ctypes.c_void_p(self.function("aclCreateScalar", ctypes.c_void_p)(ctypes.byref(number), type_))

    def ints(self, values: Sequence[int]) -> ctypes.c_void_p:
        array = (ctypes.c_int64 * len(values))(*values)
        return ctypes.c_void_p(self.function("aclCreateIntArray", ctypes.c_void_p)(array, ctypes.c_uint64(len(values))))

    def prepare(self, name: str, *arguments: Argument) -> tuple[int, int, ctypes.c_void_p]:
        """Calls phase 1; returns its code, the workspace size in bytes, and the executor.

        Numbers become aclScalars, and lists become aclIntArrays.
        """
        size, executor = ctypes.c_uint64(), ctypes.c_void_p()
        made: list[tuple[str, ctypes.c_void_p]] = []
        passed: list[Argument] = []
        for each in arguments:
            if isinstance(each, Tensor):
                passed.append(each.handle)
            elif isinstance(each, (int, float)):
                made.append(("aclDestroyScalar", self.scalar(each)))
                passed.append(made[-1][1])
            elif isinstance(each, list):
                made.append(("aclDestroyIntArray", self.ints(each)))
                passed.append(made[-1][1])
            else:
                passed.append(each)
        first = self.function(f"aclnn{name}GetWorkspaceSize")
        code = int(first(*passed, ctypes.byref(size), ctypes.byref(executor)))
        for destroy, object_ in made:
            assert self.function(destroy)(object_) == 0
        return code, size.value, executor

    def launch(
        self, name: str, executor: ctypes.c_void_p, workspace: ctypes.c_void_p | None = None, size: int = 0
    ) -> int:
        """Calls phase 2 on the default stream and returns its code."""
        return int(self.function(f"aclnn{name}")(workspace, ctypes.c_uint64(size), executor, None))

    def synchronize(self) -> int:
        return int(self.function("aclrtSynchronizeStream")(None))

    def call(self, name: str, *arguments: Argument) -> None:
        """Calls both phases with the workspace that phase 1 asks for, and waits. Every code must be 0."""
        code, size, executor = self.prepare(name, *arguments)
        assert code == 0, self.text()
        workspace = self.allocate(size) if size else None
        assert self.launch(name, executor, workspace, size) == 0, self.text()
        assert self.synchronize() == 0, self.text()
        if workspace:
            assert self.function("aclrtFree")(workspace) == 0

    def close(self) -> None:
        """Destroys everything; fails if an object is still alive afterwards."""
        for tensor in self._kept:
            tensor.destroy()
        assert self.function("aclrtResetDevice")(0) == 0
        assert self.function("aclFinalize")() == 0
        assert self.control.live() == ""
