"""Memory for libraries with streams of their own: what the adapters for CuPy, Numba, RMM and PyTorch's CUDA share."""

from __future__ import annotations

from ._core import Buffer, _foreign_stream, empty


def require_cuda(adapter: str) -> None:
    """RuntimeError unless this process's driver is CUDA's: the adapter's library would take no other memory."""
    import tb_device

    driver = tb_device.default_driver()
    native = driver.info["native"]
    if native != "cuda":
        raise RuntimeError(
            f"tb_allocator.{adapter} gives memory of a CUDA device, but the driver {driver.info['name']!r} is one of "
            f"{native!r}: set TB_DRIVER=cuda before the driver opens"
        )


def allocate(nbytes: int, device: int, native_stream: int) -> Buffer:
    """A Buffer for work on the stream that the vendor knows by this handle; 0: the default stream."""
    return empty(nbytes, device, _foreign_stream(device, native_stream))


def record_stream(buffer: Buffer, device: int, native_stream: int) -> None:
    """As Buffer.record_stream(), with the vendor's handle."""
    buffer.record_stream(_foreign_stream(device, native_stream))
