"""
Streams, events and graphs over tb-device.
"""
from __future__ import annotations
import collections.abc
import typing
__all__: list[str] = ['Event', 'Graph', 'Stream', 'current_stream', 'default_stream', 'graph_pool_handle', 'set_current_stream', 'synchronize']
class Stream:
    """
    A queue of work on a device: in order within itself, not ordered against other streams.
    
    Stream(device=None, priority=0) hands out one of the 32 streams of the pool of that device and
    priority, in turn. Lower priorities are more urgent; out of the device's range is clamped.
    `with stream:` makes it, and its device, current in this thread.
    """
    @staticmethod
    def from_native(native: int, device: int | None = None) -> Stream:
        """
        The stream behind the vendor's own handle, such as a cudaStream_t. A stream that tb-stream did not
        make must outlive its use here. NotImplementedError if the driver has no such handles.
        """
    def __cuda_stream__(self) -> tuple[int, int]:
        """
        (version of the protocol, cudaStream_t), for packages that know CUDA's. NotImplementedError if the driver is
        not CUDA's.
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
        (version of the protocol, handle), for packages that take streams without knowing this class.
        """
    def add_callback(self, function: collections.abc.Callable[..., typing.Any], *arguments: typing.Any) -> None:
        """
        Call function(*arguments) in stream order, on a thread of the driver; later work waits for it. It must not
        use devices. Its exceptions go to sys.unraisablehook. In a capture, it is called at each replay.
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
        Address of the driver's tb_stream, which functions of the C tables take.
        """
    @property
    def native(self) -> int:
        """
        The vendor's own stream handle. NotImplementedError if the driver has none.
        """
    @property
    def priority(self) -> int:
        """
        Its priority: 0 is normal, lower is more urgent.
        """
class Event:
    """
    A point in a stream. Event(enable_timing=False, blocking=False, interprocess=False): with
    enable_timing it measures time, with blocking its synchronize() sleeps at once instead of
    spinning first, with interprocess other processes can wait for it. It belongs to the device of
    its first record; before that it is complete.
    """
    @staticmethod
    def from_ipc_handle(device: int, handle: bytes) -> Event:
        """
        The event of another process: waits and queries see the records made there. It cannot be recorded here.
        """
    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        ...
    def __repr__(self) -> str:
        ...
    def elapsed_time(self, end: Event) -> float:
        """
        Milliseconds from this event to `end`. Both need enable_timing=True, a record, and to be complete.
        """
    def ipc_handle(self) -> bytes:
        """
        What from_ipc_handle() of another process of this user takes. Needs interprocess=True.
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
class Graph:
    """
    Work of a stream, captured once and launched many times.
    
    `with tb_stream.capture() as graph:` makes one. Every launch uses the same memory. With
    tb-allocator, memory that the capture allocates belongs to the graph as long as it exists.
    """
    def __init__(self) -> None:
        ...
    def _begin(self, stream: typing.Any, pool: int | None) -> None:
        ...
    def _end(self) -> None:
        ...
    def instantiate(self) -> None:
        """
        Make it ready to launch now instead of at the first replay().
        """
    def replay(self, stream: typing.Any | None = None) -> None:
        """
        Queue the captured work on `stream` (the current one by default). Launches of one graph run one after
        another.
        """
    def reset(self) -> None:
        """
        Drop the captured work and free its memory. Queued launches still complete.
        """
    def update(self, other: Graph) -> None:
        """
        Launch the work of `other` from now on: a capture of the same operations with other arguments.
        
        FailedPreconditionError if the number, kind or order of operations differs; the graph is then unchanged.
        """
    @property
    def device(self) -> int | None:
        """
        Number of the device; None before the capture.
        """
    @property
    def node_count(self) -> int:
        """
        Number of captured operations.
        """
    @property
    def pool(self) -> int:
        """
        Number of its memory pool. Captures of one pool share memory.
        """
class _Timeline:
    def __init__(self) -> None:
        ...
    def stop(self) -> bytes:
        ...
def _connect() -> None:
    """
    Take tb-device's table. Called once, by the package.
    """
def _is_capturing(stream: typing.Any | None) -> bool:
    ...
def current_stream(device: int | None = None) -> Stream:
    """
    This thread's current stream of a device (of the current device by default): its default stream until set.
    """
def default_stream(device: int | None = None) -> Stream:
    """
    The device's default stream: the same one each time.
    """
def graph_pool_handle() -> int:
    """
    Number of a new memory pool that several captures can share, for capture(pool=...).
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
