"""The names that a Linux shared library exports, read from its dynamic symbol table (ELF, 64 bit, little-endian)."""

from __future__ import annotations

import struct
from pathlib import Path

_DYNAMIC_SYMBOLS = 11  # SHT_DYNSYM
_UNDEFINED = 0  # SHN_UNDEF: a symbol that the library needs
_LOCAL = 0  # STB_LOCAL
_DEFAULT, _PROTECTED = 0, 3  # visibilities that others can see


class NotReadable(ValueError):
    """The file is no ELF library of the kind that this module reads; the text says what it is."""


def exported_symbols(library: Path) -> list[str]:
    """The defined symbols that others can link to or look up, sorted. Raises NotReadable, OSError."""
    data = library.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise NotReadable(f"{library} is no 64-bit little-endian ELF file, so its symbols cannot be read here")
    try:
        return sorted(_read(data))
    except (struct.error, IndexError, ValueError) as error:
        raise NotReadable(f"{library} is damaged or cut off: {error}") from error


def _read(data: bytes) -> set[str]:
    (start,) = struct.unpack_from("<Q", data, 0x28)  # of the section headers
    size, count = struct.unpack_from("<HH", data, 0x3A)
    # Of each: type, offset, size, link (the section of the names), size of an entry.
    sections = [struct.unpack_from("<4xI16xQQI12xQ", data, start + place * size) for place in range(count)]
    found = set()
    for kind, offset, length, link, entry in sections:
        if kind != _DYNAMIC_SYMBOLS:
            continue
        names = sections[link][1]
        for at in range(offset, offset + length, entry):
            name, info, other, section = struct.unpack_from("<IBBH", data, at)
            if section != _UNDEFINED and info >> 4 != _LOCAL and other & 3 in (_DEFAULT, _PROTECTED):
                end = data.index(b"\0", names + name)
                found.add(data[names + name : end].decode(errors="replace"))
    return found
