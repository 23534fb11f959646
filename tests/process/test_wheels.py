"""The installed extensions carry no path of the machine that built them."""

from __future__ import annotations

import importlib.util
import pathlib
import re
import subprocess

import pytest

TORCH_FREE = ["tb_device", "tb_stream", "tb_allocator", "tb_generator"]
TORCH_LINKED = ["tb_amp", "tb_ops", "torch_backend"]
# The allowed part of the about 2 KiB that the loader reserves for all libraries that a process loads late.
STATIC_BYTES = 320


def libraries(module: str) -> list[pathlib.Path]:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    found = list(pathlib.Path(spec.origin).parent.rglob("*.so"))
    assert found, f"{module} has no extension"
    return found


def dynamic_section(library: pathlib.Path) -> str:
    return subprocess.run(["readelf", "-d", str(library)], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("module", TORCH_FREE)
def test_torch_free_packages_link_no_torch_and_search_nowhere(module: str) -> None:
    for library in libraries(module):
        section = dynamic_section(library)
        assert "libtorch" not in section
        assert "libc10" not in section
        assert not re.search(r"\((RUNPATH|RPATH)\)", section)


@pytest.mark.parametrize("module", TORCH_LINKED)
def test_torch_linked_packages_find_torch_beside_themselves(module: str) -> None:
    for library in libraries(module):
        paths = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic_section(library))
        assert paths == ["$ORIGIN/../torch/lib"]


@pytest.mark.parametrize("module", TORCH_LINKED)
def test_torch_linked_packages_pin_the_torch_minor(module: str) -> None:
    from importlib.metadata import requires

    import torch

    minor = ".".join(torch.__version__.split(".")[:2])
    assert f"torch=={minor}.*" in (requires(module.replace("_", "-")) or [])


def test_libraries_use_little_static_thread_local_storage() -> None:
    """If that room is used up, the next library that needs some cannot be loaded."""
    sizes = {}
    for library in (library for module in TORCH_FREE + TORCH_LINKED for library in libraries(module)):
        if "STATIC_TLS" not in dynamic_section(library):
            continue
        headers = subprocess.run(["readelf", "-lW", str(library)], check=True, capture_output=True, text=True).stdout
        size = re.search(r"^ +TLS +\S+ +\S+ +\S+ +\S+ +(0x[0-9a-f]+)", headers, re.MULTILINE)
        assert size is not None, f"readelf shows no TLS segment of {library}:\n{headers}"
        sizes[library.parent.name] = int(size[1], 16)
    assert {"tb_allocator", "tb_stream"} <= set(sizes), "they read such a variable in every operator"
    assert sum(sizes.values()) <= STATIC_BYTES, sizes
