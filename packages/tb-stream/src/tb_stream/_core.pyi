"""
Streams and events over tb-device.
"""
from __future__ import annotations
import typing
__all__: list[str] = ['Event', 'Stream', 'current_stream', 'default_stream', 'set_current_stream', 'synchronize']
class Stream:
    """
    A queue of work on a device: in order within itself, not ordered against other streams.
    
    Stream(device=None, priority=0) hands out one of the 32 streams of the pool of that device and
    priority, in turn. Lower priorities are more urgent; out of the device's range is clamped.
    `with stream:` makes it, and its device, current in this thread.
    """
    def __enter__(self) -> Stream:
        ...
    def __eq__(self, other: typing.Any | None) -> bool:
        ...
    def __exit__(self, *exception: typing.Any) -> None:
        ...
    def __hash__(self) -> int:
        ...
    def __init__(self, device: int | None = None, priority: int = 0) -> None:
        ...
    def __repr__(self) -> str:
        ...
    def __tb_stream__(self) -> tuple[int, int]:
        """
        (version of the protocol, handle): how other packages take a stream without knowing this class.
        """
    def query(self) -> bool:
        """
        True when all work queued so far is done. Raises the failure of queued work.
        """
    def record_event(self, event: Event | None = None) -> Event:
        """
        Record `event`, or a new one, after the work queued so far, and return it.
        """
    def synchronize(self) -> None:
        """
        Wait until all work queued so far is done. Raises the failure of queued work.
        """
    def wait_event(self, event: Event) -> None:
        """
        Work queued here from now on runs after what `event` recorded last. Does not block.
        """
    def wait_stream(self, stream: typing.Any) -> None:
        """
        Work queued here from now on runs after the work queued on `stream` so far. Does not block.
        """
    @property
    def device(self) -> int:
        """
        Number of the device.
        """
    @property
    def handle(self) -> int:
        """
        Address of the driver's tb_stream, as the C tables take it.
        """
    @property
    def native(self) -> int:
        """
        The vendor's own stream handle. NotImplementedError where the driver has none.
        """
    @property
    def priority(self) -> int:
        """
        Its priority: 0 is normal, lower is more urgent.
        """
class Event:
    """
    A point in a stream. Event(enable_timing=False, blocking=False): with enable_timing it measures
    time, with blocking its synchronize() sleeps at once instead of spinning first. It belongs to
    the device of its first record; before that it is complete.
    """
    def __init__(self, enable_timing: bool = False, blocking: bool = False) -> None:
        ...
    def __repr__(self) -> str:
        ...
    def elapsed_time(self, end: Event) -> float:
        """
        Milliseconds from this event to `end`. Both need enable_timing=True, a record, and to be complete.
        """
    def query(self) -> bool:
        """
        True when the marked work is done. Raises its failure.
        """
    def record(self, stream: typing.Any | None = None) -> None:
        """
        Mark the work queued so far on `stream` (the current one by default). Replaces the earlier point.
        """
    def synchronize(self) -> None:
        """
        Wait until the marked work is done. Raises its failure.
        """
    def wait(self, stream: typing.Any | None = None) -> None:
        """
        Work queued on `stream` (the current one by default) from now on runs after this point. Does not block.
        """
    @property
    def device(self) -> int | None:
        """
        Number of the device; None before the first record.
        """
    @property
    def handle(self) -> int:
        """
        Address of the driver's tb_event; 0 before the first record.
        """
def _connect() -> None:
    """
    Take tb-device's table. Called once, by the package.
    """
def current_stream(device: int | None = None) -> Stream:
    """
    This thread's current stream of a device (of the current device by default): its default stream until set.
    """
def default_stream(device: int | None = None) -> Stream:
    """
    The device's default stream: the same one each time.
    """
def set_current_stream(stream: typing.Any) -> None:
    """
    Make a stream, and its device, current in this thread. Better: `with stream:`.
    """
def synchronize(device: int | None = None) -> None:
    """
    Wait for all work queued on a device, by any thread. Raises the failure of queued work.
    """
_tb_export: typing.Any
