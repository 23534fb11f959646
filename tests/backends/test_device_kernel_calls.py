"""Calls with unusual arguments end on tb-ops' kernels as on stock CPU: the same exception, or values and strides."""

from __future__ import annotations

from typing import Any

import pytest
from backends.case_report import case_report
from backends.device_kernel_calls import CASES, HOST
from conftest import ROOT


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    env = {"TB_DRIVER": "sim", "TB_KERNEL_CACHE": str(tmp_path_factory.mktemp("kernels")), "TB_FALLBACK": "allow"}
    return case_report([str(ROOT / "tests" / "backends" / "device_kernel_calls.py")], env)


@pytest.mark.parametrize("name", [*CASES, *HOST])
def test_a_call_ends_as_on_the_cpu(name: str, report: dict[str, Any]) -> None:
    assert report[name] is None


def test_every_case_ran(report: dict[str, Any]) -> None:
    assert report.pop("status") == 0
    assert report.keys() == CASES.keys() | HOST.keys()
    assert len(report) >= 40
