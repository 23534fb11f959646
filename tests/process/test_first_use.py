"""The first use of tb may come from C++, where Python's argument parser does not see it."""

from __future__ import annotations

import pathlib
import re

import pytest
from conftest import RunPython
from process.first_uses import FIRST_USES

# Programs that print [2.0, 2.0, 2.0]. Each begins in a new process, where nothing has used tb.
PROGRAMS = {
    "a saved script": """
        module = torch.jit.load(folder + "/script.pt", map_location="tb")
        assert module.weight.device == torch.device("tb:0")
        x = module(torch.ones(3).to(module.weight.device))
    """,
    "a saved exported program": """
        x = torch.export.load(folder + "/exported.pt2").module()(torch.ones(3))
    """,
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with a script and an exported program, which multiply by two."""
    import torch

    folder = tmp_path_factory.mktemp("saved")

    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.full([3], 2.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.weight

    class OnDevice(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.to("tb") * torch.full([3], 2.0, device="tb")

    torch.jit.script(Twice()).save(folder / "script.pt")  # type: ignore[no-untyped-call]
    torch.export.save(torch.export.export(OnDevice(), (torch.ones(3),)), folder / "exported.pt2")
    return folder


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_operator_that_is_called_from_cxx_makes_tb_ready(
    run_python: RunPython, saved: pathlib.Path, name: str
) -> None:
    lines = [line.removeprefix("        ") for line in PROGRAMS[name].splitlines()]
    code = "\n".join(["import torch", f"folder = {str(saved)!r}", *lines, "print(x.device, x.tolist())"])
    assert run_python(code).stdout.splitlines()[-1] == "tb:0 [2.0, 2.0, 2.0]"


@pytest.mark.parametrize("name", [use.__name__ for use in FIRST_USES])
def test_a_use_from_cxx_makes_tb_ready(run_python: RunPython, name: str) -> None:
    code = f"from process import first_uses; x = first_uses.{name}(); print(x.device, x.tolist())"
    assert run_python(code).stdout.splitlines()[-1] == "tb:0 [2.0, 2.0, 2.0]"


def test_each_factory_that_a_device_must_have_makes_tb_ready(run_python: RunPython) -> None:
    code = """
        import torch

        KEYS = {"PrivateUse1": "CPU", "SparsePrivateUse1": "SparseCPU", "SparseCsrPrivateUse1": "SparseCsrCPU",
                "QuantizedPrivateUse1": "QuantizedCPU"}
        NO_DEVICES = {"aten::from_file", "aten::_make_dep_token"}  # the results are on the CPU
        count = 0
        for name in torch._C._dispatch_get_all_op_names():
            operator, _, overload = name.partition(".")
            if not name.startswith("aten::") or name in NO_DEVICES:
                continue
            try:
                arguments = torch._C._get_schema(operator, overload).arguments
            except RuntimeError:  # not for TorchScript
                continue
            if all(argument.name != "device" for argument in arguments):
                continue
            for ours, cpus in KEYS.items():
                if torch._C._dispatch_has_kernel_for_dispatch_key(name, cpus):
                    count += 1
                    if not torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, ours):
                        print(name, "has no kernel of", ours)
        print(count > 15)
    """
    assert run_python(code).stdout == "True\n"


def test_each_call_raises_the_reason_where_tb_cannot_be_used(run_python: RunPython) -> None:
    code = """
        import torch
        for _ in range(2):
            try:
                torch.ops.aten.empty.memory_format([3], device=torch.device("tb"), pin_memory=False)
            except RuntimeError as error:
                print(" ".join(str(error).split()))
    """
    lines = run_python(code, {"TB_DRIVER": "/nowhere/no-driver.so"}).stdout.splitlines()
    assert lines == [lines[0]] * 2
    assert lines[0].startswith("torch.device('tb') cannot be used: ")
    assert "/nowhere/no-driver.so" in lines[0]


def test_each_call_raises_what_is_registered_wrongly(run_python: RunPython) -> None:
    code = """
        import torch
        for _ in range(2):
            try:
                torch.ops.aten.empty.memory_format([3], device=torch.device("tb"), pin_memory=False)
            except RuntimeError as error:
                print(" ".join(str(error).split()))
    """
    lines = run_python(code, {"TB_CPU_KERNELS": "sometimes"}).stdout.splitlines()
    assert lines == [lines[0]] * 2
    assert "TB_CPU_KERNELS" in lines[0]


@pytest.mark.parametrize("call", ["rand(2, generator=g)", "randperm(4, generator=g)", "ones(2).uniform_(generator=g)"])
def test_a_generator_makes_tb_ready_so_that_a_wrong_use_is_reported_as_one(run_python: RunPython, call: str) -> None:
    done = run_python(f'import torch; g = torch.Generator("tb"); torch.{call}', check=False)
    assert re.search(r"Expected a 'cpu' (device type for generator|generator device) but found 'tb", done.stderr)
    assert "aten::" not in done.stderr
