"""
The caching allocators over tb-device.
"""
from __future__ import annotations
import tb_allocator
import typing
__all__: list[str] = ['Arena', 'Buffer', 'Plan', 'empty', 'empty_cache', 'empty_host_cache', 'host_memory_stats', 'mem_get_info', 'memory_stats', 'pinned', 'plan', 'record_memory_history', 'reset_accumulated_memory_stats', 'reset_peak_memory_stats', 'set_memory_limit']
class Buffer:
    """
    Bytes of a device, or of pinned host memory, made by empty() and pinned().
    
    Where the host can reach them, memoryview(buffer) and DLPack share the bytes without a copy, after
    waiting for the buffer's own stream; they keep the memory alive, also after free(). Work that
    other streams do on the buffer needs record_stream().
    """
    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> typing.Any:
        """
        A DLPack capsule of nbytes unsigned bytes: versioned if max_version allows, else in the legacy form.
        
        Waits for the buffer's own stream, unless stream is -1; on CUDA the stream given waits, not the host. BufferError if dl_device cannot be served.
        """
    def __dlpack_device__(self) -> tuple[int, int]:
        """
        (DLPack's device type, device number).
        """
    def __enter__(self) -> tb_allocator.Buffer:
        ...
    def __exit__(self, *exception: typing.Any) -> None:
        ...
    def __len__(self) -> int:
        ...
    def __reduce__(self) -> typing.Any:
        ...
    def __repr__(self) -> str:
        ...
    def _copy_from_address(self, source: int, after: int = 0) -> None:
        ...
    def copy_from(self, source: typing.Any) -> None:
        """
        Overwrite all bytes with those of `source`, which has the buffer protocol, in the order of the buffer's stream. ValueError unless the sizes are equal.
        """
    def free(self) -> None:
        """
        Give the memory back now, for reuse in stream order; exports keep it until they end. Twice is fine.
        """
    def record_stream(self, stream: typing.Any) -> None:
        """
        `stream` uses the buffer too: after free() it is not used again before the work queued there by then is done.
        """
    def tobytes(self) -> bytes:
        """
        A copy of the bytes, in the order of the buffer's stream.
        """
    @property
    def __cuda_array_interface__(self) -> dict[str, typing.Any]:
        """
        The bytes as CuPy, Numba and others take them, version 3, with the buffer's stream. AttributeError where the memory is not CUDA's.
        """
    @property
    def device(self) -> int | None:
        """
        Number of the device; None for pinned host memory.
        """
    @property
    def freed(self) -> bool:
        """
        Whether free() was called.
        """
    @property
    def nbytes(self) -> int:
        """
        Size in bytes.
        """
    @property
    def ptr(self) -> int:
        """
        Address of the first byte; 0 for no bytes.
        """
    @property
    def stream(self) -> int:
        """
        Address of the tb_stream it was allocated for: that stream may use it at once, and after free() too. 0 for pinned memory.
        """
class Plan:
    """
    A step that repeats, whose allocations get places computed beforehand; of Arena.plan() and plan().
    
    `with plan:` is one repetition. The first ones are recorded; then one piece of memory is reserved that holds
    all of the step, and each allocation is served by its position in the step, without a call of the driver. A
    repetition that asks for something else goes on as without a plan; when that persists, it is recorded again.
    """
    def __enter__(self) -> Plan:
        ...
    def __exit__(self, kind: typing.Any, error: typing.Any, traceback: typing.Any) -> None:
        ...
    def reset(self) -> None:
        """
        Give the plan's memory to the arena, whose trim() gives it back, and record again. Waits for the device.
        FailedPreconditionError inside a step.
        """
    def statistics(self) -> dict[str, int | float]:
        """
        Since the plan began: steps, replays (steps served as planned throughout), divergences (steps that were not),
        hits (allocations served from their places). Of the active plan: allocations of the step, those placed (the
        others outlive it), reserved_bytes, peak_bytes alive at one time, their quotient utilisation, handovers (waits
        of a stream for another, on the device), planning_seconds.
        """
    @property
    def name(self) -> str:
        """
        The name given to plan().
        """
    @property
    def state(self) -> str:
        """
        "recording"; "ready" to be placed by the next step; "replaying"; "diverged": the last step was not the planned one.
        """
class Arena:
    """
    Memory of one device apart from all other, for what should have a limit, go away or stay together.
    
    device: number, by default the current one. limit: bytes, at most reserved. tag: a name for people.
    contiguous: plain memory of the driver, for IPC and for libraries that register memory; it cannot
    be paused. Buffers of an arena may outlive it.
    """
    def __enter__(self) -> Arena:
        """
        `with arena:` all that this thread allocates on the arena's device comes from it, PyTorch's tensors too.
        """
    def __exit__(self, *arguments: typing.Any) -> None:
        ...
    def __init__(self, device: int | None = None, *, limit: int | None = None, tag: str = '', contiguous: bool = False) -> None:
        ...
    def _snapshot(self) -> bytes:
        """
        The pickle of a memory snapshot of this arena.
        """
    def empty(self, nbytes: int, stream: typing.Any | None = None) -> tb_allocator.Buffer:
        """
        As tb_allocator.empty(), from this arena. FailedPreconditionError while it is paused.
        """
    def memory_stats(self) -> dict[str, int]:
        """
        As tb_allocator.memory_stats(), of this arena.
        """
    def pause(self, backup: str | None = 'host') -> None:
        """
        Give all memory back while every buffer keeps its address: until resume() their bytes must not be touched.
        
        backup: "host" keeps the contents in host memory, None loses them. Waits for the device. When it raises for want
        of host memory or a failed copy, nothing has changed. UnsupportedError where memory does not come in pages.
        """
    def plan(self, name: str, warmup: int = 2) -> Plan:
        """
        The plan of that name, made where there is none: `with arena.plan("step"):` around each repetition of a step
        that allocates the same each time. Enters the arena too. The first `warmup` repetitions are recorded.
        """
    def resume(self) -> None:
        """
        Take the memory back, at the same addresses and with the contents that pause() kept.
        
        OutOfMemoryError where the device has no room: the arena stays paused, and a later resume() may succeed.
        """
    def trim(self) -> None:
        """
        Give unused memory back to the driver. Waits for the device.
        """
    @property
    def contiguous(self) -> bool:
        """
        Whether its memory is plain memory of the driver.
        """
    @property
    def device(self) -> int:
        """
        Number of the device.
        """
    @property
    def paused(self) -> bool:
        """
        Whether its memory is given back.
        """
    @property
    def tag(self) -> str:
        """
        The name that it was given.
        """
class _Trace:
    """
    A parsed trace.
    """
    def __init__(self, text: bytes) -> None:
        ...
    @property
    def events(self) -> int:
        ...
    @property
    def peak_live(self) -> int:
        ...
    @property
    def streams(self) -> int:
        ...
def _bytes_text(nbytes: int) -> str:
    """
    "1.50 GiB".
    """
def _connect() -> None:
    """
    Take tb-device's table. Called once, by the package.
    """
def _connect_streams() -> None:
    """
    Take tb-stream's table, for the current stream. Called once, by the package, where tb-stream is installed.
    """
def _foreign_stream(device: int, native: int) -> int:
    """
    The address of the tb_stream of a native stream handle; 0: the default stream.
    """
def _host_snapshot() -> bytes:
    """
    The pickle that host_memory_snapshot() loads.
    """
def _replay(trace: _Trace, capacity: int, settings: str, repetitions: int, lag: int, samples: int, plan: bool, pinned: bool) -> dict[str, typing.Any]:
    """
    Replays a trace; tb_allocator.replay explains the result.
    """
def _rmm_log(device: int | None) -> str:
    """
    The history as a log of RMM.
    """
def _snapshot(device: int | None) -> bytes:
    """
    The pickle that memory_snapshot() loads.
    """
def _trace(device: int | None) -> str:
    """
    The history as a trace for tb_allocator.replay.
    """
def empty(nbytes: int, device: int | None = None, stream: typing.Any | None = None) -> tb_allocator.Buffer:
    """
    A Buffer of `nbytes` bytes with any content, for work on `stream`.
    
    device: number, by default the current one. stream: an object with __tb_stream__() or the address of a
    tb_stream; by default the current stream (the device's default one where tb-stream is not installed). Raises
    tb_device.OutOfMemoryError with the figures.
    """
def empty_cache(device: int | None = None) -> None:
    """
    Give unused cached memory back to the driver, of all devices by default. Waits for the device.
    """
def empty_host_cache() -> None:
    """
    Give unused cached pinned memory back to the driver.
    """
def host_memory_stats() -> dict[str, int]:
    """
    The counts of the pinned host allocator, under the keys of memory_stats().
    """
def mem_get_info(device: int | None = None) -> tuple[int, int]:
    """
    Free and total bytes of a device, as its driver says.
    """
def memory_stats(device: int | None = None) -> dict[str, int]:
    """
    The counts of a device's allocator (of the current device by default) under PyTorch's flat keys, such as
    "allocated_bytes.all.peak". Sizes are bytes.
    """
def pinned(nbytes: int) -> tb_allocator.Buffer:
    """
    A Buffer of `nbytes` bytes of pinned host memory, which devices copy from and to without waiting.
    
    Use record_stream() for each stream that copies. Raises tb_device.OutOfMemoryError.
    """
def plan(name: str, warmup: int = 2, device: int | None = None) -> Plan:
    """
    As Arena.plan(), of all that any thread allocates on the device outside of arenas during the step: PyTorch's
    tensors too, on the way back as well.
    """
def record_memory_history(events: int = 65536, device: int | None = None) -> None:
    """
    Forget a device's history and remember the last `events` from now on, rounded up to a power of two; 0: none.
    Each takes 48 bytes. MemoryError where that is too much.
    """
def reset_accumulated_memory_stats(device: int | None = None) -> None:
    """
    Reset the sums (allocated, freed, num_*) to 0.
    """
def reset_peak_memory_stats(device: int | None = None) -> None:
    """
    Reset the peaks to the current values.
    """
def set_memory_limit(nbytes: int | None, device: int | None = None) -> None:
    """
    Never reserve more than `nbytes` of the device's memory; None: no limit. Memory that is reserved already is kept.
    """
_tb_export: typing.Any
