"""The errors and the time of an import, and the README's example."""

import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
import zlib

import pytest
import tb_amp
import torch
from tb_amp import _build


def test_the_package_has_its_version_and_an_extension_for_the_installed_torch() -> None:
    assert tb_amp.__version__ == _build.VERSION
    assert ".".join(torch.__version__.split(".")[:2]) in _build.torch_minors()
    assert tb_amp.get_amp_supported_dtype() == [torch.bfloat16, torch.float16]


@pytest.mark.parametrize("installed", ["2.12.1", "2.99.0+cu130", "3.13.0", "2.130.0"])
def test_another_torch_is_refused_in_one_sentence_before_the_extension_is_loaded(installed: str) -> None:
    program = (
        "import sys, types\n"
        f"sys.modules['torch'] = types.SimpleNamespace(__version__={installed!r})\n"
        "try: import tb_amp\n"
        "except ImportError as error: print(error)\n"
        "assert 'tb_amp._core' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    built, minor = ", ".join(_build.torch_minors()), ".".join(installed.split(".")[:2])
    beginning = f"tb-amp {_build.VERSION} was built for torch {built}, but torch {installed} is installed: "
    assert done.stdout.startswith(f"{beginning}pip install 'torch")
    assert done.stdout.endswith(f"', or a tb-amp built for torch {minor}\n")


def test_importing_takes_30_milliseconds_at_most_beyond_torch() -> None:
    # Processor time, so that other load of the machine does not matter.
    program = (
        "import time, torch\n"
        "before = time.process_time()\n"
        "import tb_amp\n"
        "print((time.process_time() - before) * 1000)\n"
    )
    alone = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=alone)
    assert 0 < float(done.stdout) <= 30


def test_the_package_is_smaller_than_300_kilobytes_compressed() -> None:
    """The extensions for other versions of PyTorch do not count."""
    own = pathlib.Path(tb_amp._core.__file__).parent.name
    files = [
        file
        for file in importlib.metadata.files("tb-amp") or []
        if not file.parent.name.startswith("torch-") or file.parent.name == own
    ]
    sizes = [len(zlib.compress(pathlib.Path(str(file.locate())).read_bytes())) for file in files]
    assert 50_000 < sum(sizes) <= 300_000


def test_the_example_of_the_readme_runs() -> None:
    readme = pathlib.Path(__file__).parents[1] / "README.md"
    [example] = re.findall(r"```python\n(.*?)```", readme.read_text(), re.DOTALL)
    assert len(example.strip().splitlines()) <= 11
    alone = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=False, env=alone)
    assert (done.returncode, done.stderr) == (0, "")
    counts, has_kernel, last = done.stdout.splitlines()
    assert ("fp32" in counts, has_kernel, last) == (True, "True", "readme::halve")
