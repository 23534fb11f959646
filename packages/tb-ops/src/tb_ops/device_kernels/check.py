"""Runs the core set on a driver, and compares with stock CPU: python -m tb_ops.device_kernels.check [GROUP...].

For who brings up a device: each case is a few calls of operators on the driver of TB_DRIVER (or --driver). Their
results must be those of PyTorch on the CPU, without a fallback. The status is 1 if a case is wrong, or if none ran.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

import tb_device
import torch
from torch import Tensor

from tb_ops.device_kernels import core_set, row, used_kernels
from tb_ops.device_kernels.case_inputs import Case
from tb_ops.device_kernels.cases import GROUPS


def _tensors(result: Any) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else list(result)


def difference(case: Case, lacks_float64: bool) -> str | None:
    """How the case differs between tb and stock CPU, or that it fell back; None: it agrees.

    With lacks_float64, a case whose name has "float64" may fall back or say in its error that the device lacks it.
    """
    name, call, inputs = case
    free = lacks_float64 and "float64" in name
    torch.tb.reset_fallbacks()  # type: ignore[attr-defined]
    try:
        found = [x.cpu() for x in _tensors(call(*(x.to("tb") if isinstance(x, Tensor) else x for x in inputs)))]
        for actual, expected in zip(found, _tensors(call(*inputs)), strict=True):
            torch.testing.assert_close(actual, expected, equal_nan=True)
    except (AssertionError, RuntimeError, NotImplementedError, ValueError, IndexError) as error:
        if free and isinstance(error, NotImplementedError) and "the device lacks float64" in str(error):
            return None
        return f"{type(error).__name__}: {str(error)[:600]}"
    fallen = [row.operator for row in torch.tb.fallbacks()]  # type: ignore[attr-defined]
    return f"fell back: {fallen}" if fallen and not free else None


def run_groups(groups: list[str], step: int) -> dict[str, Any]:
    """The driver, how many cases ran, the text of each wrong one, and the rows of the kernels that were used."""
    cases = [case for group in groups for case in list(GROUPS[group]())[::step]]
    lacks_float64 = "float64" in tb_device.get_device_properties(0).lacks
    wrong = {case[0]: text for case in cases if (text := difference(case, lacks_float64)) is not None}
    return {
        "driver": torch.tb.get_device_properties(0).driver,  # type: ignore[attr-defined]
        "cases": len(cases),
        "wrong": wrong,
        "kernels": [row(kernel) for kernel in used_kernels()],
    }


def main() -> int:
    """Returns 1 if a case is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m tb_ops.device_kernels.check",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}; all by default")
    parser.add_argument("--driver", help="a driver's name or library, as TB_DRIVER has it")
    parser.add_argument("--step", type=int, default=1, metavar="N", help="every Nth case of each group; all by default")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    asked = parser.parse_args()
    if unknown := [group for group in asked.groups if group not in GROUPS]:
        parser.error(f"no group is called {', '.join(unknown)}: there are {', '.join(GROUPS)}")
    if not hasattr(torch, "tb"):
        parser.error("the device tb is not registered with PyTorch: pip install torch-backend")
    if asked.driver:
        os.environ["TB_DRIVER"] = asked.driver
    torch.tb.set_fallback_mode("allow")
    report = run_groups(asked.groups or list(GROUPS), asked.step)
    if asked.json:
        print(json.dumps(report))
    else:
        for name, text in report["wrong"].items():
            print(f"{name}: {text}")
        known = {row(kernel) for kernel in core_set()}
        print(
            f"{report['driver']}: {report['cases']} cases, {len(report['wrong'])} wrong; "
            f"{len(report['kernels'])} kernels, {len(known.intersection(report['kernels']))} of them in the core set"
        )
    return 1 if report["wrong"] or not report["cases"] else 0


if __name__ == "__main__":
    sys.exit(main())
