"""The object that a program calls while it runs: makes tensors, controls streams, reads on the host, keeps results."""

from __future__ import annotations

import contextlib
import functools
import pickle
import re
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.reduction import ForkingPickler
from typing import Any

import tb_stream
import torch
import torch.multiprocessing  # teaches ForkingPickler tensors
from torch import Tensor


@dataclass
class Result:
    """The results of a run: host reads in order, the tensors alive at the end, or the error that ended it."""

    reads: list[Any] = field(default_factory=list)
    alive: dict[str, Facts] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True)
class Facts:
    """A tensor's values and metadata. `memory` is the name of the first living tensor that shares its storage."""

    values: Tensor
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int | None, ...]  # None if the size is 1, where the stride has no effect
    offset: int
    bits: tuple[bool, bool, bool]  # conj, neg, requires_grad
    version: int  # how often autograd counts it as changed
    memory: str


@functools.cache
def _values(seed: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, generator=generator, dtype=torch.complex64 if dtype.is_complex else None).to(dtype)
    low = -9 if dtype.is_signed else 0
    return torch.randint(low, 10, shape, generator=generator).to(dtype)


@contextlib.contextmanager
def _deterministic() -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)  # which fills uninitialised memory with the same values on every device
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


@contextlib.contextmanager
def _double_by_default() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


_MODES: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "": contextlib.nullcontext,
    "deterministic": _deterministic,
    "double by default": _double_by_default,
    "no gradients": torch.no_grad,
}
MODES = tuple(_MODES)


class Stage:
    """A run on stock cpu: streams do nothing. `DeviceStage` is a run on a device."""

    def __init__(self, device: str, streams: int) -> None:
        self.device = device
        self.result = Result()
        self._called = 0
        self._made: list[weakref.ref[Tensor]] = []

    def make(self, seed: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """A tensor on the device with the values of this seed."""
        made = _values(seed, shape, dtype).clone().to(self.device)
        self._made.append(weakref.ref(made))
        return made

    def keeps_any(self) -> bool:
        """Whether a tensor of make() is still alive: after an in-place write, autograd's graph may hold itself."""
        return any(reference() is not None for reference in self._made)

    def indices(self, seed: int, high: int, shape: tuple[int, ...]) -> Tensor:
        """Random integers from 0 to high - 1."""
        generator = torch.Generator().manual_seed(seed)
        return torch.randint(high, shape, generator=generator).to(self.device)

    def sent(self, tensor: Tensor) -> Tensor:
        """The tensor as torch.multiprocessing's queues give it to a reader, with memory of its own."""
        # Sending moves a CPU tensor to shared memory, where PyTorch crashes if a later program line resizes it.
        received: Tensor = pickle.loads(ForkingPickler.dumps(tensor.clone())).clone()
        return received

    def on(self, stream: int) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def wait(self, stream: int, other: int) -> None:
        """Makes `stream` wait for the work that is queued on `other` now."""

    def record(self, stream: int) -> Any:
        """Records an event after the work that is queued on `stream` now."""

    def wait_event(self, stream: int, event: Any) -> None: ...

    def keep(self, tensor: Tensor, stream: int) -> None:
        """record_stream: keeps the tensor's memory until `stream` has done the work that is queued when it is freed."""

    def forced(self, *operators: str) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def busy(self, stream: int) -> None:
        """Queues work of some milliseconds, so that the host and other streams overtake this stream."""

    def mode(self, name: str) -> contextlib.AbstractContextManager[Any]:
        """A context with one of MODES, a mode of PyTorch for this process or thread; "": none."""
        return _MODES[name]()

    def callback(self, stream: int) -> None:
        """Queues a call of a Python function, which needs the interpreter's lock."""
        self._call()

    def _call(self) -> None:
        self._called += 1

    def synchronize(self) -> None: ...

    def read(self, how: str, *tensors: Tensor) -> None:
        """Reads tensors on the host and keeps the values."""
        for tensor in tensors:
            self.result.reads.append(_READS[how](tensor.detach()))

    def refused(self, call: Callable[[], Any]) -> None:
        """Keeps the type of the exception that a wrong call raises, at once or late."""
        try:
            call()
            self.synchronize()
        except Exception as error:
            self.result.reads.append(type(error).__name__)
        else:
            self.result.reads.append("nothing raised")

    def finish(self, names: Mapping[str, Any]) -> None:
        """Keeps the facts of every living tensor of a program, and the number of callbacks that were called."""
        self.synchronize()
        self.result.reads.append(self._called)
        first: dict[int, str] = {}
        for name, tensor in names.items():
            if not re.fullmatch(r"t\d+", name):
                continue
            self.result.alive[name] = Facts(
                tensor.detach().cpu().resolve_conj().resolve_neg().clone(),
                tensor.dtype,
                tuple(tensor.shape),
                tuple(
                    None if size == 1 else stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
                ),
                tensor.storage_offset(),
                (tensor.is_conj(), tensor.is_neg(), tensor.requires_grad),
                tensor._version,
                first.setdefault(tensor.untyped_storage()._cdata, name),
            )


def _into_host_memory(tensor: Tensor) -> Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor)


def _without_blocking(tensor: Tensor) -> Tensor:
    host = torch.empty(tensor.shape, dtype=tensor.dtype)
    host.copy_(tensor, non_blocking=True)
    if tensor.device.type != "cpu":
        torch.accelerator.current_stream().synchronize()
    return host


_READS: dict[str, Callable[[Tensor], Any]] = {
    "cpu": lambda x: x.cpu().clone(),
    "list": lambda x: x.resolve_conj().resolve_neg().tolist(),
    "equal": lambda x: (torch.equal(x, x.clone()), x.count_nonzero().item()),
    "copy": _into_host_memory,
    "non_blocking": _without_blocking,
}
READS = tuple(_READS)


class DeviceStage(Stage):
    """A run on device tb with side streams of its own."""

    def __init__(self, device: str, streams: int) -> None:
        super().__init__(device, streams)
        default = torch.tb.default_stream()  # type: ignore[attr-defined]
        self._streams = [default, *(torch.Stream(device=device) for _ in range(streams - 1))]
        self._loads: dict[int, Tensor] = {}

    def on(self, stream: int) -> contextlib.AbstractContextManager[Any]:
        entered: contextlib.AbstractContextManager[Any] = self._streams[stream]
        return entered

    def wait(self, stream: int, other: int) -> None:
        self._streams[stream].wait_stream(self._streams[other])

    def record(self, stream: int) -> Any:
        return self._streams[stream].record_event()

    def wait_event(self, stream: int, event: Any) -> None:
        self._streams[stream].wait_event(event)

    def keep(self, tensor: Tensor, stream: int) -> None:
        tensor.record_stream(self._streams[stream])

    def forced(self, *operators: str) -> contextlib.AbstractContextManager[Any]:
        held: contextlib.AbstractContextManager[Any] = torch.tb.force_fallback(*operators)  # type: ignore[attr-defined]
        return held

    def busy(self, stream: int) -> None:
        with self.on(stream):
            if stream not in self._loads:
                self._loads[stream] = torch.ones(200_000, device=self.device)
            self._loads[stream].sin_()

    def callback(self, stream: int) -> None:
        with self.on(stream):
            tb_stream.current_stream().add_callback(self._call)

    def synchronize(self) -> None:
        torch.accelerator.synchronize()
