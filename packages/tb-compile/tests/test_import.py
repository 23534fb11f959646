"""The errors and the time of an import, and the compiler backend without a device except the CPU."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import subprocess
import sys
import zlib

import pytest
import tb_compile
import torch
from tb_compile import _build


def run_alone(program: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a fresh interpreter without the device tb."""
    alone = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=alone)


def test_the_package_has_its_version_and_an_extension_for_the_installed_torch() -> None:
    assert tb_compile.__version__ == _build.VERSION
    assert ".".join(torch.__version__.split(".")[:2]) in _build.torch_minors()


@pytest.mark.parametrize("installed", ["2.12.1", "2.99.0+cu130", "3.13.0", "2.130.0"])
def test_another_torch_is_refused_in_one_sentence_before_the_extension_is_loaded(installed: str) -> None:
    done = run_alone(
        "import sys, types\n"
        f"sys.modules['torch'] = types.SimpleNamespace(__version__={installed!r})\n"
        "try: import tb_compile\n"
        "except ImportError as error: print(error)\n"
        "assert 'tb_compile._core' not in sys.modules\n"
    )
    assert (done.returncode, done.stderr) == (0, "")
    built, minor = ", ".join(_build.torch_minors()), ".".join(installed.split(".")[:2])
    beginning = f"tb-compile {_build.VERSION} was built for torch {built}, but torch {installed} is installed: "
    assert done.stdout.startswith(f"{beginning}pip install 'torch")
    assert done.stdout.endswith(f"', or a tb-compile built for torch {minor}\n")


def test_importing_does_not_load_the_compiler() -> None:
    done = run_alone("import sys, tb_compile\nprint('torch._dynamo' in sys.modules, 'torch._inductor' in sys.modules)")
    assert (done.stdout, done.stderr) == ("False False\n", "")


def test_the_package_is_smaller_than_400_kilobytes_compressed() -> None:
    """As a wheel: without what pip compiles. The extensions for other versions of PyTorch do not count."""
    own = pathlib.Path(tb_compile._core.__file__).parent.name
    files = [
        file
        for file in importlib.metadata.files("tb-compile") or []
        if file.suffix != ".pyc" and (not file.parent.name.startswith("torch-") or file.parent.name == own)
    ]
    sizes = [len(zlib.compress(pathlib.Path(str(file.locate())).read_bytes())) for file in files]
    assert 50_000 < sum(sizes) <= 400_000


def test_the_backend_works_without_the_device_tb() -> None:
    done = run_alone(
        "import torch, tb_compile\n"
        "net = torch.nn.Linear(4, 4)\n"
        "call = torch.compile(net, backend='tb', fullgraph=True)\n"
        "x = torch.randn(3, 4)\n"
        "torch.testing.assert_close(call(x), net(x))\n"
        "print([(graph.which, graph.reason) for graph in tb_compile.graphs()])\n"
    )
    assert done.stdout == "[('forward', ''), ('backward', '')]\n", done.stderr
