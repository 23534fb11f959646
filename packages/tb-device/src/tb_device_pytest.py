"""The pytest plugin of tb-device (entry point pytest11): options of the contract kit, and the fixture tb_fault_sweep.

Outside the package so that other people's test runs, which load this too, do not import tb_device.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --tb-driver and the others; they matter to tb_device.contract alone."""
    group = parser.getgroup("tb_device.contract", "the driver contract (pytest --pyargs tb_device.contract)")
    group.addoption("--tb-driver", metavar="NAME|PATH", help="the driver under test; a path has a slash")
    group.addoption("--tb-level", type=int, choices=range(5), default=4, help="0 core, 1 streams, ... 4 all (default)")
    group.addoption("--tb-only", action="append", default=[], metavar="AREA|ID", help="such as MEM or MEM-04")
    group.addoption("--tb-seed", type=int, default=1, help="for cases and drivers that choose at random")
    group.addoption("--tb-expect", metavar="FILE", help="the vendor's expectations (tb-contract.toml)")
    group.addoption("--tb-report", metavar="FILE", help="write the result as JSON")
    group.addoption("--tb-slow", action="store_true", help="also the cases that take long")
    group.addoption("--tb-image", default="", metavar="FILE", help="the kernels of tb/contract_kernels.h, compiled")


@pytest.fixture
def tb_fault_sweep() -> Callable[..., int]:
    """tb_device.fault_sweep.sweep: runs a function with its driver call number N failing, for N = 0, 1, 2 ...

    Needs the layers fault and leak around the driver: TB_LAYERS=fault,leak before it is opened.
    """
    from tb_device.fault_sweep import sweep

    return sweep
