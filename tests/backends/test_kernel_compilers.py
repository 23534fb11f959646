"""How tb-ops' kernels become images where tb-ops knows no compiler: a vendor's compiler, his shim, packs of images.

The device is the sim driver's, with an architecture that nobody knows; the vendor's library is kernel_compiler.c.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable

import pytest
from conftest import ROOT, RunPython, compile_c, write_metadata
from tb_ops.device_kernels import Kernel
from tb_ops.device_kernels.pack import make_pack

SHIM = '#pragma once\n#include "shim_host.cuh"\n#include "mychip_more.h"\n'
COMMAND = '#!/bin/sh\nexec c++ -std=c++20 -fPIC -shared -w "$@"\n'

ADD = """
    import torch, tb_ops
    x = torch.arange(3.0).to("tb")
    assert (x + x).cpu().tolist() == [0.0, 2.0, 4.0]
    assert [row.operator for row in torch.tb.fallbacks()] == []
    images = tb_ops.kernel_images()
    print(images.compiled, images.found, images.packed)
"""


@pytest.fixture
def vendor(tmp_path: pathlib.Path, library: pathlib.Path) -> pathlib.Path:
    """A folder as a vendor's wheel installs it: the library, its shim and compiler, and the entry point."""
    shutil.copy(library, tmp_path / "libvendor.so")
    (tmp_path / "mychip.cuh").write_text(SHIM)
    (tmp_path / "mychip_more.h").write_text("// Nothing yet.\n")
    (tmp_path / "mycc").write_text(COMMAND)
    (tmp_path / "mycc").chmod(0o755)
    (tmp_path / "vendor.py").write_text(
        "import pathlib\nhere = pathlib.Path(__file__).parent\n"
        "def library():\n    return here / 'libvendor.so'\n"
        "def images():\n    return here / 'images'\n"
    )
    write_metadata(tmp_path, "vendor", "[tb.kernels]\nvendor = vendor:library\n")
    return tmp_path


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    out = tmp_path_factory.mktemp("library") / "libvendor.so"
    compile_c(pathlib.Path(__file__).with_name("kernel_compiler.c"), out, "-O1")
    return out


RunOn = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run_on(vendor: pathlib.Path, run_python: RunPython) -> RunOn:
    """Runs a program on a device that calls its architecture mychip, beside the vendor's package."""

    def run(code: str, *, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        own = {"TB_DRIVER": "sim", "TB_SIM_ARCHITECTURE": "mychip", "TB_KERNEL_CACHE": str(vendor / "cache")}
        path = f"{vendor}{os.pathsep}{ROOT / 'tools'}"
        return run_python(code, env={**own, "PYTHONPATH": path, "TB_FALLBACK": "allow", **env}, check=check)

    return run


def counts(done: subprocess.CompletedProcess[str]) -> tuple[int, ...]:
    """How many images were compiled, found in the cache, and found in packs."""
    return tuple(int(word) for word in done.stdout.split())


def without_compilers(folder: pathlib.Path) -> str:
    empty = folder / "empty"
    empty.mkdir(exist_ok=True)
    return str(empty)


@pytest.mark.parametrize("way", ["compile", "command"])
def test_the_drivers_compiler_makes_the_images_without_a_variable(run_on: RunOn, way: str) -> None:
    [compiled, found, packed] = counts(run_on(ADD, VENDOR_WAY=way))
    assert compiled > 0
    assert (found, packed) == (0, 0)
    assert counts(run_on(ADD, VENDOR_WAY=way)) == (0, compiled, 0)


def test_an_image_of_another_compiler_is_not_used(run_on: RunOn) -> None:
    [compiled, _, _] = counts(run_on(ADD, VENDOR_WAY="compile"))
    assert counts(run_on(ADD, VENDOR_WAY="compile", VENDOR_IDENTITY="mycc 1.1")) == (compiled, 0, 0)


@pytest.mark.parametrize("changed", ["mychip.cuh", "mychip_more.h"])
def test_an_image_of_another_shim_is_not_used(run_on: RunOn, vendor: pathlib.Path, changed: str) -> None:
    run_on(ADD, VENDOR_WAY="command")
    with (vendor / changed).open("a") as file:
        file.write("#error the moon is in the way\n")
    done = run_on(ADD, VENDOR_WAY="command", check=False)
    assert done.returncode != 0
    assert f"{changed}:" in done.stderr
    assert "the moon is in the way" in done.stderr


def test_the_variable_of_the_shim_is_a_part_of_the_key_too(run_on: RunOn, vendor: pathlib.Path) -> None:
    variables = {"TB_KERNEL_COMPILER": "host", "TB_KERNEL_SHIM": str(vendor / "mychip.cuh")}
    run_on(ADD, **variables)
    with (vendor / "mychip.cuh").open("a") as file:
        file.write("#error the moon is in the way\n")
    done = run_on(ADD, **variables, check=False)
    assert "the moon is in the way" in done.stderr
    done = run_on(ADD, TB_KERNEL_COMPILER="host", TB_HOST_COMPILER="c++ -DTB_KERNEL_SHIM=<a.cuh>", check=False)
    assert "Name the shim's file in the variable TB_KERNEL_SHIM" in done.stderr


def test_failures_name_the_compiler_and_the_kernel(run_on: RunOn, vendor: pathlib.Path) -> None:
    text = run_on(ADD, VENDOR_WAY="compile", VENDOR_FAILS="1", check=False).stderr
    assert "compiling the device kernel pointwise<Add, float> failed" in text
    assert "the compiler of " + str(vendor / "libvendor.so") + ", mycc 1.0" in text
    assert "the chip has no such instruction" in text
    (vendor / "mycc").write_text("#!/bin/sh\necho it rains; exit 3\n")
    text = run_on(ADD, VENDOR_WAY="command", check=False).stderr
    assert "failed with status 3 (the compiler of " in text
    assert "it rains" in text
    (vendor / "mycc").unlink()
    assert "mycc is no program that can be run" in run_on(ADD, VENDOR_WAY="command", check=False).stderr
    assert (
        "has a compiler without compiler_identity"
        in run_on(ADD, VENDOR_WAY="compile", VENDOR_IDENTITY="", check=False).stderr
    )


def test_a_driver_whose_architecture_nobody_knows_says_so(run_on: RunOn) -> None:
    code = """
        import torch, torch_backend, tb_ops
        x = torch.ones(3, device="tb")
        print(x + x)
        x * x
        print(tb_ops.missing_compiler())
        torch_backend.doctor()
    """
    done = run_on(code, TB_FALLBACK="warn")
    reason = "no compiler of tb-ops' kernels is known for the architecture 'mychip'"
    assert done.stderr.count(reason) == 1, "the first fallback's warning, and only that"
    assert done.stdout.count(reason) == 2
    done = run_on("import torch\ntorch.ones(2, device='tb') + 1", TB_FALLBACK="error", check=False)
    assert reason in done.stderr


USED = """
    import json, tb_ops
    from tb_ops.device_kernels import Kernel
    print(json.dumps(tb_ops._core.used_kernels()))
"""


@pytest.fixture
def pack_of(run_on: RunOn, vendor: pathlib.Path) -> Callable[[str], pathlib.Path]:
    """Makes a pack, for the architecture mychip, of the kernels that a program uses."""

    def make(code: str) -> pathlib.Path:
        report = run_on(code + USED, VENDOR_WAY="command").stdout.splitlines()[-1]
        kernels = [Kernel(*fields) for fields in json.loads(report)]
        assert kernels
        size, failures = make_pack(
            str(vendor / "images"), str(vendor / "mycc"), "mychip", str(vendor / "mychip.cuh"), kernels
        )
        assert failures == {}
        assert size > 1000 * len(kernels)
        shutil.rmtree(vendor / "cache")
        return vendor / "images"

    return make


def test_with_a_pack_no_compiler_is_needed(
    run_on: RunOn, pack_of: Callable[[str], pathlib.Path], vendor: pathlib.Path
) -> None:
    folder = pack_of(ADD)
    path = without_compilers(vendor)
    [compiled, found, packed] = counts(run_on(ADD, VENDOR_WAY="images", PATH=path))
    assert (compiled, found) == (0, 0)
    assert packed >= 1
    assert counts(run_on(ADD, VENDOR_WAY="all", PATH=path)) == (0, 0, packed)  # the table has shim and compiler too
    assert counts(run_on(ADD, TB_KERNEL_IMAGES=f"/nowhere:{folder}", PATH=path)) == (0, 0, packed)
    (vendor / "vendor-1.0.dist-info" / "entry_points.txt").write_text("[tb.images]\nvendor = vendor:images\n")
    assert counts(run_on(ADD, PATH=path)) == (0, 0, packed)
    assert (
        "fell back"
        in run_on(
            "import torch\nx = torch.ones(2, device='tb') + 1\nprint('fell back' if torch.tb.fallbacks() else '')",
            TB_KERNEL_IMAGES="",
        ).stdout
    )


def test_a_pack_of_another_shim_or_of_other_kernels_is_not_used(
    run_on: RunOn, pack_of: Callable[[str], pathlib.Path], vendor: pathlib.Path
) -> None:
    folder = pack_of(ADD)
    with (vendor / "mychip.cuh").open("a") as file:
        file.write("#error the moon is in the way\n")
    done = run_on(ADD, VENDOR_WAY="command", TB_KERNEL_IMAGES=str(folder), check=False)
    assert "the moon is in the way" in done.stderr
    (folder / "mychip" / "shim.cuh").write_text(SHIM + "// changed\n")
    done = run_on(ADD, TB_KERNEL_IMAGES=str(folder), check=False)
    assert "is not in the packs of images for the architecture mychip (" + str(folder) in done.stderr
    assert "python -m tb_ops.device_kernels.pack makes one" in done.stderr


def test_a_pack_is_not_mixed_from_two_shims(vendor: pathlib.Path) -> None:
    kernel = Kernel("elementwise.cuh", "pointwise<Add, float>", "PointwiseArguments", 256, False)
    make_pack(str(vendor / "images"), str(vendor / "mycc"), "mychip", str(vendor / "mychip.cuh"), [kernel])
    make_pack(str(vendor / "images"), str(vendor / "mycc"), "mychip", str(vendor / "mychip.cuh"), [kernel])
    (vendor / "mychip_more.h").write_text("// Another one.\n")
    with pytest.raises(RuntimeError, match="has images that were compiled with another shim"):
        make_pack(str(vendor / "images"), str(vendor / "mycc"), "mychip", str(vendor / "mychip.cuh"), [kernel])
    with pytest.raises(ValueError, match="--compiler needs --architecture"):
        make_pack(str(vendor / "images"), "nvrtc", None, "", [kernel])


DEMO = """
    import torch
    from examples.demo.comparison import losses
    from examples.demo.corpus import read_corpus
    from examples.demo.settings import ModelSettings, TrainingSettings
    from examples.demo.training import Trainer

    settings = TrainingSettings(steps=5, batch=4, warm_up=2)
    torch.manual_seed(settings.seed)
    model = ModelSettings(width=32, heads=2, blocks=2, context=16)
    found = losses(Trainer(torch.device("tb"), read_corpus(), model, settings), 5)
    assert found[-1] < found[0], found
    assert not torch.tb.fallbacks(), torch.tb.fallbacks()
"""
IMAGES = """
    import tb_ops
    images = tb_ops.kernel_images()
    print(images.compiled, images.found, images.packed)
"""


def test_the_demo_trains_from_a_pack(
    run_on: RunOn, pack_of: Callable[[str], pathlib.Path], vendor: pathlib.Path
) -> None:
    pack_of(DEMO)
    [compiled, found, packed] = counts(run_on(DEMO + IMAGES, VENDOR_WAY="images", PATH=without_compilers(vendor)))
    assert (compiled, found) == (0, 0)
    assert packed > 20
