"""Which operator backends serve which driver: tb_ops.backends(), and the listings that show it."""

from __future__ import annotations

import io
import json

import pytest
import tb_ops
import torch_backend
from conftest import RunPython
from sim_vendor.simulated import variables
from tb_ops import coverage

NAMES = ["host", "torch_cuda", "jit", "aclnn", "host_copy", "vendor"]
SERVING = """
import tb_ops
print(*(backend.name for backend in tb_ops.backends() if backend.serves))
"""


def test_the_backends_are_listed_in_the_order_in_which_they_register() -> None:
    assert [backend.name for backend in tb_ops.backends()] == NAMES
    assert all(backend.description and backend.rule for backend in tb_ops.backends())


def test_the_cpu_driver_is_served_by_the_host_kernels_alone() -> None:
    assert [backend.name for backend in tb_ops.backends() if backend.serves] == ["host"]


@pytest.mark.parametrize(
    ("driver", "serving"), [("sim", "jit host_copy"), ("cuda", "jit host_copy"), ("npu", "aclnn host_copy")]
)
def test_drivers_with_memory_of_their_own_are_served_by_what_they_offer(
    run_python: RunPython, driver: str, serving: str
) -> None:
    environment = {"TB_DRIVER": "sim"} if driver == "sim" else variables(driver)
    assert run_python(SERVING, environment).stdout.strip() == serving


def test_the_coverage_listing_and_the_doctor_say_which_backends_serve() -> None:
    listing = coverage.operators()
    assert "  serves  host  " in coverage.summary(listing)
    assert "not used  jit  " in coverage.summary(listing)
    assert "| host | yes | " in coverage.as_markdown(listing)
    rows = json.loads(coverage.as_json(listing))["backends"]
    assert [(row["name"], row["serves"]) for row in rows] == [(name, name == "host") for name in NAMES]
    page = io.StringIO()
    assert torch_backend.doctor(page)
    operators = page.getvalue().split("\nOperators\n")[1].splitlines()
    assert operators[0].startswith("  host ")
    assert operators[1] == ""
