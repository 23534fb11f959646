"""On a machine with a vendor's device, tests run on the cpu driver unless TB_DRIVER asks for another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sim_vendor.simulated import ROOT, build

PLUGIN = ["-p", "pytest_plugins.tests_on_cpu"]
TEST = "import tb_device\n\ndef test_which():\n    assert tb_device.default_driver().name == {name!r}\n"


@pytest.mark.parametrize(
    ("arguments", "asked", "name"),
    [(PLUGIN, "", "cpu"), (PLUGIN, "npu", "npu"), ([], "", "cuda")],
)
def test_the_driver_of_tests(tmp_path: Path, arguments: list[str], asked: str, name: str) -> None:
    (tmp_path / "test_driver.py").write_text(TEST.format(name=name))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TB_")}
    environment["TB_CUDA_LIBRARY"] = str(build("cuda"))
    environment["TB_NPU_LIBRARY"] = str(build("npu"))
    environment["PYTHONPATH"] = str(ROOT / "tools")
    if asked:
        environment["TB_DRIVER"] = asked
    command = [sys.executable, "-m", "pytest", "-q", *arguments, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout
