"""The judges of devices on a PrivateUse1 backend that has nothing of ours: conformance, and PyTorch's own tests."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
from conftest import compile_extension, write_metadata

HERE = pathlib.Path(__file__).parent
Judge = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """Runs a module of torch_backend with arguments where the foreign device is installed as a wheel installs it."""
    folder = tmp_path_factory.mktemp("foreign")
    compile_extension(HERE / "foreign_device.cpp", folder / "_foreign_device.so")
    shutil.copy(HERE / "foreign_device.py", folder)
    write_metadata(folder, "foreign-device", "[torch.backends]\nforeign = foreign_device:_autoload\n")

    def run(module: str, *arguments: str, registers: str = "0") -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if name != "TORCH_DEVICE_BACKEND_AUTOLOAD"}
        path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
        return subprocess.run(
            [sys.executable, "-m", f"torch_backend.{module}", *arguments],
            env={**clean, "PYTHONPATH": path, "TB_REGISTER": registers},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def report(path: pathlib.Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_conformance_judges_it(judge: Judge, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "report.json"
    arguments = ["--device", "foreign", "--op", "add,sort,nn.functional.conv2d", "--dtype", "float32"]
    done = judge("conformance", *arguments, "--workers", "1", "--json", str(file))
    found = report(file)
    forward = found["checks"]["forward"]
    assert done.returncode == 1, done.stdout + done.stderr  # it has no convolution
    assert [case["op"] for case in forward["failures"]] == ["nn.functional.conv2d"]
    assert forward["passed"] == 2
    assert found["device"] == "foreign"


FILE = """
    import torch
    from torch.testing._internal.common_device_type import instantiate_device_type_tests, onlyCUDA
    from torch.testing._internal.common_utils import TestCase

    class TestSome(TestCase):
        def test_add(self, device):
            self.assertEqual(torch.ones(2, device=device) + 1, torch.full((2,), 2.0))
            self.assertEqual(torch.device(device).type in ("cpu", "foreign"), True)

        @onlyCUDA
        def test_draws(self, device):
            generator = torch.Generator(device).manual_seed(3)
            first = torch.rand(4, device=device, generator=generator)
            self.assertNotEqual(torch.rand(4, device=device, generator=generator), first)

        def test_wrong_here(self, device):
            self.assertEqual(torch.device(device).type, "cpu")

    instantiate_device_type_tests(TestSome, globals(), only_for=("cpu", "cuda"))
"""
MINE = """
    [[expected]]
    file = "test_torch"
    test = "TestSome.test_wrong_here"
    driver = "foreign"
    kind = "names a device"
    reason = "it compares the device's name"
"""


def test_pytorchs_own_tests_run_on_it(judge: Judge, tmp_path: pathlib.Path) -> None:
    (tmp_path / "test").mkdir()
    (tmp_path / "version.txt").write_text("2.6.0a0\n")
    (tmp_path / "test" / "test_torch.py").write_text(textwrap.dedent(FILE))
    mine = tmp_path / "foreign.toml"
    mine.write_text(textwrap.dedent(MINE))
    arguments = ["--source", str(tmp_path), "--device", "foreign", "--results", str(tmp_path), "--workers", "1"]
    done = judge("pytorch_tests", *arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED test_torch TestSome.test_wrong_here" in done.stdout
    done = judge("pytorch_tests", *arguments, "--expected", str(mine), "--retry")
    assert done.returncode == 0, done.stdout + done.stderr
    found = report(tmp_path / "report.json")
    assert (found["device"], found["driver"]) == ("foreign", "foreign")
    counts = found["files"]["test_torch"]
    assert (counts["executed"], counts["passed"], counts["expected"], counts["native"]) == (3, 2, 1, None)
