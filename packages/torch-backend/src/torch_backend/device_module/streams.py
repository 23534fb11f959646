"""torch.tb: streams and events. They are subclasses of torch.Stream and torch.Event, so all of PyTorch accepts them."""

from types import TracebackType
from typing import Any

import torch

from torch_backend import _state
from torch_backend.device_module.devices import Device, _exchange_device, device_index


class Stream(torch.Stream):
    """A queue of work on a device, in order. `with stream:` makes it this thread's current one.

    priority: lower is more urgent; a priority out of the device's range is clamped. Streams are taken from a pool, so
    several objects may share one queue. Follows torch.cuda.Stream.
    """

    def __new__(cls, device: Device = None, priority: int = 0, **fields: Any) -> "Stream":
        if fields:  # stream_id, device_index, device_type: an existing stream
            return super().__new__(cls, **fields)
        return super().__new__(cls, device=torch.device("tb", device_index(device)), priority=priority)

    def __repr__(self) -> str:
        return f"torch.tb.Stream(device={self.device}, stream_id={self.stream_id:#x})"


class Event(torch.Event):
    """A point in a stream, for which the host or another stream can wait. Follows torch.cuda.Event.

    enable_timing: two such events measure the time between them. blocking: has no effect, since waiting never spins for
    long. interprocess=True is not supported: NotImplementedError.
    """

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> "Event":
        if interprocess:
            raise NotImplementedError("torch.tb.Event(interprocess=True): events cannot be shared between processes")
        return super().__new__(cls, device="tb", enable_timing=enable_timing, blocking=blocking)

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Milliseconds of device time from this event to `end_event`.

        RuntimeError: one of the two is not recorded or not complete. TypeError: `end_event` is not an event of tb.
        """
        from torch_backend import _core

        if not isinstance(end_event, torch.Event) or end_event.device.type != "tb":
            raise TypeError(f"elapsed_time: expected an event of a tb device, but got {end_event!r}")
        return _core.elapsed_time(_event_id(self), _event_id(end_event))

    def __repr__(self) -> str:
        return f"torch.tb.Event(device={self.device}, event_id={self.event_id:#x})"


def _event_id(event: torch.Event) -> int:
    return torch.Event.event_id.__get__(event)  # type: ignore[attr-defined, no-any-return]  # a subclass may override it


def _existing(stream: torch.Stream) -> Stream:
    return Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)


def current_stream(device: Device = None) -> Stream:
    """This thread's current stream of a device, which is the device's default stream until set."""
    _state.initialize()
    return _existing(torch._C._accelerator_getStream(device_index(device)))


def default_stream(device: Device = None) -> Stream:
    """The device's default stream, whose stream_id is 0."""
    number = device_index(device)
    return Stream(stream_id=0, device_index=number, device_type=current_stream(number).device_type)


def get_stream_from_external(data_ptr: int, device: Device = None) -> Stream:
    """The stream behind a vendor's own handle, such as a cudaStream_t as a number, for work of other libraries.

    The vendor's stream must outlive its use here. NotImplementedError: the driver has no such handles.
    tb_device.NotFoundError: it has no stream with this one.
    """
    number = device_index(device)
    _state.initialize()
    import tb_stream

    found = tb_stream.Stream.from_native(data_ptr, number)
    standard = default_stream(number)
    if found == tb_stream.default_stream(number):
        return standard
    return Stream(stream_id=found.handle, device_index=number, device_type=standard.device_type)


def set_stream(stream: torch.Stream | None) -> None:
    """Makes a stream this thread's current one, and its device the current device. None changes nothing."""
    if stream is not None:
        _state.initialize()
        torch._C._accelerator_setStream(stream)


class StreamContext:
    """The context manager that stream() returns: restores the current stream and device after the block."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self._before: tuple[int, Stream] | None = None

    def __enter__(self) -> torch.Stream | None:
        if self.stream is not None:
            self._before = (device_index(), current_stream(self.stream.device_index))
            set_stream(self.stream)
        return self.stream

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._before is not None:
            device, stream = self._before
            set_stream(stream)
            _exchange_device(device)


def stream(stream: torch.Stream | None) -> StreamContext:
    """Context manager: makes `stream` and its device current inside the block. None changes nothing."""
    return StreamContext(stream)
