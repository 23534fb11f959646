"""What torch_backend.integrations replaces where Lightning chooses an accelerator, in one that looks like it."""

from __future__ import annotations

import pathlib

import pytest
from conftest import RunPython
from fake_clients import Folder

CODE = """
    import torch
    from lightning.pytorch.trainer.connectors.accelerator_connector import *
    from lightning.pytorch.trainer.connectors.accelerator_connector import _AcceleratorConnector
    chosen = _AcceleratorConnector({arguments})
    precision = getattr(chosen.precision, "device", None)
    print(chosen._strategy_flag.root_device, type(chosen.accelerator).__name__, precision)
"""


@pytest.fixture
def environment(tmp_path: pathlib.Path) -> dict[str, str]:
    folder = Folder(tmp_path)
    folder.add_lightning()
    return folder.environment


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("", "tb:0 TBAccelerator None"),
        ("'gpu'", "tb:0 TBAccelerator None"),
        ("precision='bf16-mixed'", "tb:0 TBAccelerator tb"),
        ("plugin=MixedPrecision('bf16-mixed', 'cuda')", "tb:0 TBAccelerator cuda"),
        ("strategy=SingleDeviceStrategy('tb')", "tb TBAccelerator None"),
        ("strategy=FSDPStrategy()", "tb:0 TBAccelerator None"),
    ],
)
def test_lightning_takes_tb(run_python: RunPython, environment: dict[str, str], arguments: str, found: str) -> None:
    done = run_python(CODE.format(arguments=arguments), environment)
    assert (done.stdout, done.stderr) == (f"{found}\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        "strategy=SingleDeviceStrategy('cpu')",
        "strategy=SingleDeviceStrategy()",
        "strategy=SingleDeviceStrategy(torch.device('cpu', 0)), precision='bf16-mixed'",
        "strategy=DDPStrategy([torch.device('cpu')])",
        "'cpu'",
        "'cpu', precision='bf16-mixed'",
    ],
)
def test_a_program_of_the_cpu_is_as_without_us(
    run_python: RunPython, environment: dict[str, str], arguments: str
) -> None:
    code = CODE.format(arguments=arguments)
    done = run_python(code, environment)
    assert done.stdout.split()[1] == "CPUAccelerator"
    assert done.stdout == run_python(code, {**environment, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}).stdout
    assert done.stderr == ""


def test_what_is_used_is_said_to_be_available(run_python: RunPython, environment: dict[str, str]) -> None:
    code = """
        import types, torch
        from lightning.pytorch.accelerators import AcceleratorRegistry
        from lightning.pytorch.trainer import setup
        for name in ("tb", "cpu"):
            setup._log_device_info(types.SimpleNamespace(accelerator=AcceleratorRegistry[name]()))
    """
    lines = run_python(code, environment).stdout.splitlines()
    tpu = "TPU available: False, using: 0 TPU cores"
    assert lines == ["GPU available: True (tb), used: True", tpu, "GPU available: False, used: False", tpu]
