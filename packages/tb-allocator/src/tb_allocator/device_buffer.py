"""DeviceBuffer: device memory with the names that users of RMM know, for any driver."""

from __future__ import annotations

from typing import Any

from ._core import Buffer, _foreign_stream, empty


class DeviceBuffer:
    """`size` bytes of a device, for work on `stream`.

    ptr: address of host or device memory whose bytes are copied in. stream, device: as in tb_allocator.empty(). The
    memory goes back when the object ends. Raises tb_device.OutOfMemoryError with the figures.
    """

    def __init__(self, *, ptr: int = 0, size: int = 0, stream: object | None = None, device: int | None = None) -> None:
        self._buffer = empty(size, device, stream)
        if ptr and size:
            self._buffer._copy_from_address(ptr)

    @staticmethod
    def to_device(data: object, stream: object | None = None) -> DeviceBuffer:
        """A copy of the bytes of `data`, which has the buffer protocol."""
        view = memoryview(data)  # type: ignore[arg-type]
        made = DeviceBuffer(size=view.nbytes, stream=stream)
        made.copy_from_host(view)
        return made

    @property
    def buffer(self) -> Buffer:
        """The memory itself."""
        return self._buffer

    @property
    def ptr(self) -> int:
        """Address of the first byte; 0 for no bytes."""
        return self._buffer.ptr

    @property
    def size(self) -> int:
        """In bytes."""
        return self._buffer.nbytes

    @property
    def nbytes(self) -> int:
        """In bytes."""
        return self._buffer.nbytes

    def copy_from_host(self, source: object) -> None:
        """Overwrite all bytes with those of `source`, which has the buffer protocol. ValueError if sizes differ."""
        self._buffer.copy_from(source)

    def copy_to_host(self, target: Any = None) -> Any:
        """Copy all bytes into `target`, writable with the buffer protocol; without one into a new bytearray.

        Returns what holds the bytes. ValueError if sizes differ.
        """
        data = self.tobytes()
        if target is None:
            return bytearray(data)
        view = memoryview(target).cast("B")
        if view.nbytes != len(data):
            raise ValueError(f"the buffer has {len(data)} bytes, but the target {view.nbytes}: give one of that size")
        view[:] = data
        return target

    def copy_from_device(self, source: Any) -> None:
        """Overwrite all bytes with those of a DeviceBuffer, or of anything with `__cuda_array_interface__`.

        ValueError if sizes differ.
        """
        if isinstance(source, DeviceBuffer):
            address, nbytes, after = source.ptr, source.size, source.buffer.stream
        else:
            interface = source.__cuda_array_interface__
            address, nbytes = _extent(interface)
            native = interface.get("stream")
            after = 0 if native is None else _foreign_stream(self._buffer.device or 0, native)
        if nbytes != self.size:
            raise ValueError(f"the buffer has {self.size} bytes, but {nbytes} were given: give as many")
        if nbytes:
            self._buffer._copy_from_address(address, after)

    def copy(self) -> DeviceBuffer:
        """Another buffer with the same bytes."""
        stream = self._buffer.stream or None
        return DeviceBuffer(ptr=self.ptr, size=self.size, stream=stream, device=self._buffer.device)

    def tobytes(self) -> bytes:
        """A copy of the bytes on the host, in the order of the buffer's stream."""
        return self._buffer.tobytes()

    def hex(self) -> str:
        """The bytes as hexadecimal digits."""
        return self.tobytes().hex()

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return self._buffer.__cuda_array_interface__

    def __dlpack__(self, **options: Any) -> object:
        return self._buffer.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._buffer.__dlpack_device__()

    def __len__(self) -> int:
        return self.size

    def __bytes__(self) -> bytes:
        return self.tobytes()

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        """By its bytes, over the host, as RMM's: unpickling allocates on the current device."""
        return DeviceBuffer.to_device, (self.tobytes(),)

    def __repr__(self) -> str:
        return f"DeviceBuffer(size={self.size}, ptr={self.ptr:#x}, device={self._buffer.device})"


def _extent(interface: dict[str, Any]) -> tuple[int, int]:
    """Address and bytes. ValueError for strides: the bytes would not be in one piece."""
    if interface.get("strides") is not None:
        raise ValueError("the array is not contiguous: copy it first")
    count = 1
    for extent in interface["shape"]:
        count *= extent
    return interface["data"][0], count * int(interface["typestr"][2:])
