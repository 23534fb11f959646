"""Where a Linux shared library looks for others, read as the dynamic loader reads it (ELF, 64 bit, little-endian)."""

from __future__ import annotations

import struct

_LOAD, _DYNAMIC = 1, 2  # PT_LOAD, PT_DYNAMIC
_STRINGS, _RPATH, _RUNPATH = 5, 15, 29  # DT_STRTAB, DT_RPATH, DT_RUNPATH


def library_path(data: bytes) -> str:
    """The library's RUNPATH, or its RPATH; "" if it has neither. ValueError: it is no such file, or is damaged."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("no 64-bit little-endian ELF file")
    try:
        return _read(data)
    except (struct.error, ValueError) as error:
        raise ValueError(f"a damaged ELF file: {error}") from error


def _read(data: bytes) -> str:
    (start,) = struct.unpack_from("<Q", data, 0x20)  # of the program headers
    size, count = struct.unpack_from("<HH", data, 0x36)
    # Of each: type, offset in the file, address, size in the file.
    parts = [struct.unpack_from("<I4xQQ8xQ", data, start + place * size) for place in range(count)]
    entries: dict[int, int] = {}
    for kind, offset, _, length in parts:
        if kind == _DYNAMIC:
            entries |= dict(struct.iter_unpack("<QQ", data[offset : offset + length // 16 * 16]))
    name = entries.get(_RUNPATH, entries.get(_RPATH))
    if name is None:
        return ""
    for kind, offset, address, length in parts:
        if kind == _LOAD and address <= entries.get(_STRINGS, -1) < address + length:
            begin = offset + entries[_STRINGS] - address + name
            return data[begin : data.index(b"\0", begin)].decode(errors="replace")
    raise ValueError("its table of strings is nowhere")
