"""Traces of PyTorch programs, from the tensors that their operators make: on meta tensors, without any device memory.

Importing this module imports torch; tb_allocator.record() and tb_allocator.Recorder do so when they are used. What is
seen is what a device's allocator would see of the program: results of operators, on the forward and the backward way,
and the optimizer's. What operators need inside while they run (workspaces of vendors' libraries) is not.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches the operators that run inside its `with`, and writes a trace for tb_allocator.replay.

    device_type: of the tensors that are recorded, such as "meta", "tb" or "cpu"; by default all but "cpu". Tensors that
    were there before and are used inside count as allocated where the trace begins. Streams are those of the device, or
    what stream() says; `record_stream` is written too.
    """

    def __init__(self, device_type: str | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._device_type = device_type
        self._before: list[str] = []
        self._lines: list[str] = []
        self._live: dict[int, tuple[int, int]] = {}  # by the storage's address in C++: number, bytes
        self._references: dict[int, weakref.ref[Any]] = {}
        self._streams: dict[tuple[str, int, int], int] = {}
        self._next = 0
        self._override: int | None = None
        # Backward runs on threads of its own; a storage may end inside any operation, also of this thread.
        self._lock = threading.RLock()

    def mark(self, text: str) -> None:
        """Write a comment, such as the number of the step, which replays pass over."""
        with self._lock:
            self._lines.append(f"# {text}")

    @contextmanager
    def stream(self, number: int) -> Iterator[None]:
        """Write what is allocated inside as work of stream `number`: meta tensors have no streams of their own."""
        before, self._override = self._override, number
        try:
            yield
        finally:
            self._override = before

    def allocate(self, nbytes: int, stream: int = 0) -> Callable[[], None]:
        """Write an allocation that no operator shows, such as a gathered parameter; call the result to free it."""
        with self._lock:
            number = self._new("a", nbytes, stream, self._lines)

        def free() -> None:
            with self._lock:
                self._lines.append(f"f {number}")

        return free

    def text(self) -> str:
        """The trace so far. Blocks that are alive stay allocated at its end."""
        with self._lock:
            return "\n".join([*self._before, *self._lines]) + "\n"

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the operator and note the storages that are new in its results."""
        given = tree_leaves((args, kwargs or {}))
        for leaf in given:
            self._see(leaf, self._before)
        if func is torch.ops.aten.record_stream.default:
            self._record_stream(args[0], args[1])
        result = func(*args, **(kwargs or {}))
        for leaf in (*tree_leaves(result), *given):  # an operator may have resized what it was given
            self._see(leaf, self._lines)
        return result

    def _new(self, kind: str, nbytes: int, stream: int, lines: list[str]) -> int:
        number = self._next
        self._next += 1
        lines.append(f"{kind} {number} {nbytes} {stream}")
        return number

    def _recorded(self, leaf: Any) -> bool:
        if not isinstance(leaf, torch.Tensor):
            return False
        kind = leaf.device.type
        return kind != "cpu" if self._device_type is None else kind == self._device_type

    def _see(self, leaf: Any, lines: list[str]) -> None:
        if not self._recorded(leaf):
            return
        try:
            storage = leaf.untyped_storage()
        except NotImplementedError:  # a subclass around other tensors, which show themselves
            return
        key, nbytes = storage._cdata, storage.nbytes()
        with self._lock:
            known = self._live.get(key)
            if known and known[1] == nbytes:
                return
            if known:
                self._end(key)
                lines = self._lines
            if nbytes == 0:
                return
            self._live[key] = (self._new("a", nbytes, self._stream_of(leaf.device), lines), nbytes)
            self._references[key] = weakref.ref(storage, lambda _: self._end(key))

    def _end(self, key: int) -> None:
        with self._lock:
            number, _ = self._live.pop(key)
            del self._references[key]
            self._lines.append(f"f {number}")

    def _stream_of(self, device: torch.device) -> int:
        if self._override is not None:
            return self._override
        if device.type in ("meta", "cpu"):
            return 0
        return self._number(torch.accelerator.current_stream(device.index))

    def _number(self, stream: Any) -> int:
        key = (stream.device.type, stream.device.index, stream.stream_id)
        return self._streams.setdefault(key, len(self._streams))

    def _record_stream(self, tensor: Any, stream: Any) -> None:
        if self._recorded(tensor):
            with self._lock:
                number, _ = self._live[tensor.untyped_storage()._cdata]
                self._lines.append(f"r {number} {self._number(stream)}")


def record(step: Callable[[], object], *, iterations: int = 1, device_type: str | None = None) -> str:
    """Run `step` so many times and return the trace of what its tensors ask of an allocator.

    step: a function without arguments that runs a program's step, such as forward, backward and the optimizer's, most
    simply on a model that was made under `torch.device("meta")`: that costs no memory and little time. device_type: as
    in Recorder. Each iteration begins with a mark. Save the text to a file for `python -m tb_allocator.replay`.
    """
    recorder = Recorder(device_type)
    for iteration in range(iterations):
        recorder.mark(f"iteration {iteration}")
        with recorder:
            step()
    return recorder.text()
