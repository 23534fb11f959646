"""Images of tb-ops' kernels in SPIR-V; tb-ops asks for their folder through the entry point of the group tb.images."""

from pathlib import Path


def images() -> str:
    """The folder of the pack. It has kernels for devices with and without 64-bit floats."""
    return str(Path(__file__).parent / "images")
