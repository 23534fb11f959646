"""The installed extensions carry no path of the machine that built them, and fit the installed torch."""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import re
import subprocess
from importlib.metadata import requires
from typing import Any

import pytest
from packaging.requirements import Requirement

TORCH_FREE = ["tb_device", "tb_stream", "tb_allocator", "tb_generator"]
TORCH_LINKED = ["tb_amp", "tb_ops", "tb_compile", "torch_backend"]
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
        assert paths == ["$ORIGIN/../../torch/lib"]


@pytest.mark.parametrize("module", TORCH_LINKED)
def test_there_is_one_extension_for_each_torch_that_was_built_for(module: str) -> None:
    """There is one for the installed torch, and no more than for the versions that the metadata admit."""
    import torch

    minors = importlib.import_module(f"{module}._build").torch_minors()
    assert ".".join(torch.__version__.split(".")[:2]) in minors
    folders = {library.parent.name for library in libraries(module)}
    assert folders == {f"torch-{minor}" for minor in minors}
    needs = map(Requirement, requires(module.replace("_", "-")) or [])
    [declared] = [need for need in needs if need.name == "torch"]
    assert all(declared.specifier.contains(f"{minor}.0") for minor in minors)


def build_module(folder: pathlib.Path, *minors: str) -> Any:
    """The _build of tb-amp as it would be with extensions for these minor versions of torch."""
    for minor in minors:
        (folder / f"torch-{minor}").mkdir()
    spec = importlib.util.find_spec("tb_amp")
    assert spec is not None
    assert spec.origin is not None
    source = pathlib.Path(spec.origin).with_name("_build.py").read_text()
    (folder / "built.py").write_text(source.replace(re.findall(r'VERSION = "(.*)"', source)[0], "1.2.3"))
    spec = importlib.util.spec_from_file_location("built", folder / "built.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("installed", ["2.9.1", "2.10.0+cu130", "2.11.0a0+git1234", "2.11.0.dev20261126"])
def test_the_extension_of_the_installed_minor_version_is_taken(tmp_path: pathlib.Path, installed: str) -> None:
    build = build_module(tmp_path, "2.9", "2.10", "2.11")
    assert build.torch_minors() == ["2.9", "2.10", "2.11"]
    assert build.extension_folder(installed) == str(tmp_path / f"torch-{'.'.join(installed.split('.')[:2])}")


def test_another_minor_version_is_refused_with_what_fits(tmp_path: pathlib.Path) -> None:
    build = build_module(tmp_path, "2.13", "2.14", "2.15")
    for installed, minor in (("2.12.1", "2.12"), ("2.99.0+cu130", "2.99"), ("2.1.0", "2.1"), ("3.13.0", "3.13")):
        with pytest.raises(ImportError) as error:
            build.extension_folder(installed)
        assert str(error.value) == (
            f"tb-amp 1.2.3 was built for torch 2.13, 2.14, 2.15, but torch {installed} is installed: "
            f"pip install 'torch>=2.13,<2.16', or a tb-amp built for torch {minor}"
        )


def test_a_package_that_was_built_for_one_torch_names_that(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ImportError, match=re.escape("pip install 'torch==2.14.*', or a tb-amp built for torch 2.13")):
        build_module(tmp_path, "2.14").extension_folder("2.13.0")


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
