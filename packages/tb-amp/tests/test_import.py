"""What importing says when the installed torch is not the one that the package was built for."""

import subprocess
import sys

import pytest
import tb_amp
import torch
from tb_amp import _build


def test_the_package_knows_what_it_is_and_was_built_for() -> None:
    assert tb_amp.__version__ == _build.VERSION
    assert torch.__version__.startswith(_build.TORCH_MINOR + ".")
    assert tb_amp.get_amp_supported_dtype() == [torch.bfloat16, torch.float16]


@pytest.mark.parametrize("installed", ["2.12.1", "2.14.0+cu130", "3.13.0", "2.130.0"])
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
    minor = _build.TORCH_MINOR
    assert done.stdout.strip() == (
        f"tb-amp {_build.VERSION} was built for torch {minor}, but torch {installed} is installed: "
        f"pip install 'torch=={minor}.*' or a tb-amp built for {installed}"
    )
