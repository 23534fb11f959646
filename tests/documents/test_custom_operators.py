"""docs/custom-operators.md is right: its files build, its commands print what it shows, and its operators work."""

from __future__ import annotations

import os
import pathlib
import re
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from conftest import ROOT, RunPython
from documents.page_commands import Shell, Step, check_output
from ops import node_demands
from torch_backend._testing import held
from torch_backend.conformance.bits import bit_identical

PAGE = (ROOT / "docs" / "custom-operators.md").read_text()
FILES = dict(re.findall(r"```\w+ file=(\S+)\n(.*?)```", PAGE, re.DOTALL))
STEPS = [
    Step("", match[1], (match[2] or "").splitlines())
    for match in re.finditer(r"```sh run\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE, re.DOTALL)
]
BUILD, *USES = STEPS


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A folder with the page's files, after the page's build."""
    shell = Shell(tmp_path_factory.mktemp("custom"))
    for name, text in FILES.items():
        path = shell.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    check_output(BUILD, shell.run(BUILD.commands))
    return shell


@pytest.fixture(scope="module")
def mychip(shell: Shell) -> Iterator[ModuleType]:
    sys.path.insert(0, str(shell.folder / "installed"))
    import mychip  # type: ignore[import-not-found]

    yield mychip
    sys.path.remove(str(shell.folder / "installed"))


def test_the_page_has_its_files_and_steps() -> None:
    assert set(FILES) == {
        *("mychip.yaml", "kernels.h", "kernels.cpp", "meson.build", "pyproject.toml", "src/mychip/__init__.py")
    }
    assert len(USES) == 1
    assert USES[0].prints


def test_the_pages_commands_do_what_the_page_says(shell: Shell) -> None:
    for step in USES:
        check_output(step, shell.run(step.commands))


def test_a_mistake_is_refused_as_the_page_shows(tmp_path: pathlib.Path, run_python: RunPython) -> None:
    wrong = FILES["mychip.yaml"].replace("x.numel() // x.size(-1)", "y.size(0)")
    (tmp_path / "mychip.yaml").write_text(wrong)
    code = f"""
    import os
    from tb_ops.codegen.__main__ import main
    os.chdir({str(tmp_path)!r})
    raise SystemExit(main(["custom", "mychip.yaml"]))
    """
    done = run_python(code, check=False)
    assert done.returncode == 1
    assert done.stderr.strip().removeprefix("tb_ops.codegen: ") in PAGE


# For each operator with a functional schema, a function that makes its arguments on a device.
Sample = Callable[[str, torch.dtype], tuple[Any, ...]]
SAMPLES: dict[str, Sample] = {
    "swish": lambda device, dtype: (made((3, 5), device, dtype), 1.5),
    "swish_backward": lambda device, dtype: (*(made((3, 5), device, dtype) for _ in range(2)), 0.5),
    "rms_norm": lambda device, dtype: (made((2, 3, 4), device, dtype), made((4,), device, dtype), 1e-5),
    "rms_norm without weight": lambda device, dtype: (made((2, 3, 4), device, dtype), None, 1e-5),
    "add_scaled": lambda device, dtype: (made((3, 1), device, dtype), made((2, 1, 4), device, dtype), -2.0),
    "add_scaled transposed": lambda device, dtype: (made((3, 4), device, dtype).T, made((3,), device, dtype)),
}
DIFFERENTIABLE = [name for name in SAMPLES if not name.startswith("swish_backward")]


def made(shape: tuple[int, ...], device: str, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=dtype).to(device).requires_grad_()


def operator(name: str) -> Any:
    return getattr(torch.ops.mychip, name.split()[0]).default


# opcheck's checks, without those that it supports for PyTorch's own devices only.
CHECKS = {
    "cpu": ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"),
    "tb": ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic"),
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("device", ["cpu", "tb"])
def test_opcheck(mychip: ModuleType, name: str, device: str) -> None:
    arguments = SAMPLES[name](device, torch.float32)
    if name not in DIFFERENTIABLE:
        arguments = tuple(a.detach() if isinstance(a, torch.Tensor) else a for a in arguments)
    torch.library.opcheck(operator(name), arguments, test_utils=CHECKS[device])


@pytest.mark.parametrize("device", ["cpu", "tb"])
def test_opcheck_of_the_operator_that_writes_its_argument(mychip: ModuleType, device: str) -> None:
    torch.library.opcheck(operator("clip_in_place"), (torch.randn(5, device=device), 0.5), test_utils=CHECKS[device])


@pytest.mark.parametrize("name", DIFFERENTIABLE)
@pytest.mark.parametrize("device", ["cpu", "tb"])
def test_gradients_are_the_finite_differences(mychip: ModuleType, name: str, device: str) -> None:
    assert torch.autograd.gradcheck(operator(name), SAMPLES[name](device, torch.float64))


@pytest.mark.usefixtures("no_fallbacks")
@pytest.mark.parametrize("name", SAMPLES)
def test_results_and_gradients_are_the_cpus_and_nothing_falls_back(mychip: ModuleType, name: str) -> None:
    found = {}
    for device in ("cpu", "tb"):
        arguments = SAMPLES[name](device, torch.float32)
        leaves = [a for a in arguments if isinstance(a, torch.Tensor)]
        with torch.set_grad_enabled(name in DIFFERENTIABLE):
            results = operator(name)(*arguments)
        results = results if isinstance(results, tuple) else (results,)
        gradients: tuple[torch.Tensor, ...] = ()
        if name in DIFFERENTIABLE:
            gradients = torch.autograd.grad(results[0].cos().sum(), leaves)
        found[device] = [t.detach().cpu() for t in (*results, *gradients)]
        assert all(t.device.type == device for t in results)
    for expected, actual in zip(found["cpu"], found["tb"], strict=True):
        assert bit_identical(expected, actual)
        assert expected.stride() == actual.stride()


@pytest.mark.parametrize("way", node_demands.WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("device", ["cpu", "tb"])
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_work_wherever_pytorchs_own_do(
    mychip: ModuleType, name: str, device: str, way: node_demands.Way
) -> None:
    call, sample = operator(name), SAMPLES[name](device, torch.float64)
    places = [i for i, value in enumerate(sample) if isinstance(value, torch.Tensor)]

    def function(*tensors: torch.Tensor) -> torch.Tensor:
        given = dict(zip(places, tensors, strict=True))
        result = call(*(given.get(i, value) for i, value in enumerate(sample)))
        return result[0] if isinstance(result, tuple) else result  # type: ignore[no-any-return]

    tensors = [sample[i].detach().requires_grad_() for i in places]
    expected = node_demands.plain(function, tensors)
    found = way(function, tensors)
    assert len(found) == len(expected)
    for want, got in zip(expected, found, strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_forward_mode_is_refused_and_not_forgotten(mychip: ModuleType, name: str) -> None:
    sample = SAMPLES[name]("tb", torch.float64)
    with pytest.raises(NotImplementedError, match=f"forward AD with mychip::{name.split()[0]}"):
        torch.func.jvp(lambda x: operator(name)(x, *sample[1:]), (sample[0].detach(),), (sample[0].detach(),))


def test_add_scaled_can_be_differentiated_twice(mychip: ModuleType) -> None:
    assert torch.autograd.gradgradcheck(operator("add_scaled"), SAMPLES["add_scaled"]("tb", torch.float64))


def test_an_operator_without_gradients_raises_in_the_backward_pass(mychip: ModuleType) -> None:
    x = torch.ones(3, device="tb", requires_grad=True)
    with pytest.raises(RuntimeError, match=r"derivative for mychip::swish_backward is not implemented"):
        torch.autograd.grad(torch.ops.mychip.swish_backward(x, x, 1.0).sum(), x)


@pytest.mark.usefixtures("no_fallbacks")
def test_a_call_returns_before_earlier_work_is_done(mychip: ModuleType) -> None:
    matrix = torch.full((32, 32), 1 / 32, device="tb")
    torch.ops.mychip.swish(matrix)  # the first call of an operator may wait
    torch.accelerator.synchronize()
    with held():  # raises if the block waits for the stream
        result = mychip.swish(matrix)
    torch.testing.assert_close(result.cpu(), torch.nn.functional.silu(matrix.cpu()))


def test_a_failed_check_raises_at_the_call_on_every_device(mychip: ModuleType) -> None:
    for device in ("cpu", "tb", "meta"):
        with pytest.raises(RuntimeError, match="mychip::rms_norm: weight must have one element"):
            mychip.rms_norm(torch.ones(2, 3, device=device), torch.ones(2, device=device))


def test_tensors_of_two_devices_are_refused(mychip: ModuleType) -> None:
    with pytest.raises(RuntimeError, match=r"mychip::add_scaled got tensors on tb:0 and cpu"):
        mychip.add_scaled(torch.ones(3, device="tb"), torch.ones(3))


def test_an_exception_of_a_kernel_names_the_operator_and_leaves_the_device_usable(mychip: ModuleType) -> None:
    x = torch.full((3,), 5.0, device="tb")
    with pytest.raises(RuntimeError, match="the limit must not be negative") as raised:  # noqa: PT012 (either may raise)
        mychip.clip_in_place(x, -1.0)
        torch.accelerator.synchronize()
    assert "mychip::clip_in_place" in str(raised.value)
    mychip.clip_in_place(x, 2.0)
    assert x.tolist() == [2.0] * 3


def test_writing_an_argument_counts_as_a_change_for_autograd(mychip: ModuleType) -> None:
    x = torch.ones(3, device="tb", requires_grad=True)
    squared = x * 2
    result = squared * squared
    mychip.clip_in_place(squared.detach(), 0.5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(result.sum(), x)


def test_writing_where_a_gradient_is_required_is_refused(mychip: ModuleType) -> None:
    for device in ("cpu", "tb"):
        x = torch.ones(3, device=device, requires_grad=True)
        with pytest.raises(RuntimeError, match=r"mychip::clip_in_place writes to an argument .* torch.no_grad"):
            mychip.clip_in_place(x * 2, 0.5)
        with torch.no_grad():
            mychip.clip_in_place(x, 0.5)
        assert x.tolist() == [0.5] * 3


def test_an_output_without_a_formula_is_not_differentiable(mychip: ModuleType) -> None:
    out, scale = mychip.rms_norm(torch.ones(2, 3, device="tb", requires_grad=True), None)
    assert out.requires_grad
    assert not scale.requires_grad


def test_a_driver_without_host_kernels_runs_them_on_the_cpu_counted(shell: Shell, run_python: RunPython) -> None:
    code = """
    import torch, mychip
    x = torch.arange(6.0).reshape(2, 3)
    y = mychip.swish(x.to("tb"))
    assert torch.equal(y.cpu(), mychip.swish(x))
    assert "mychip::swish" in {row.operator for row in torch.tb.fallbacks()}
    """
    run_python(code, env={"TB_DRIVER": "sim", "TB_FALLBACK": "allow", "PYTHONPATH": python_path(shell)})


def test_a_library_for_another_pytorch_is_refused(shell: Shell, run_python: RunPython) -> None:
    """tb-ops' table is replaced by one that claims to be built for the next minor version."""
    code = """
    import ctypes, tb_ops
    capsule, record_size, table_place, minor_place = b"tb.export.v1", 48, 40, 8  # as tb/component.h lays them out
    read, make = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_New
    read.restype, read.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    found = ctypes.string_at(read(tb_ops._core._tb_export, capsule), record_size)
    record = ctypes.create_string_buffer(found, record_size)
    place = ctypes.c_void_p.from_buffer(record, table_place)
    size = ctypes.c_uint32.from_address(place.value).value
    table = ctypes.create_string_buffer(ctypes.string_at(place.value, size), size)
    ctypes.c_int32.from_buffer(table, minor_place).value += 1
    place.value = ctypes.addressof(table)
    tb_ops._core._tb_export = make(ctypes.addressof(record), capsule, None)
    try:
        import mychip
    except ImportError as error:
        print(error)
    """
    output = run_python(code, env={"PYTHONPATH": python_path(shell)}).stdout
    assert re.search(
        r"mychip was built for torch (\d+)\.\d+, the installed tb-ops for torch \1\.\d+\. Build mychip", output
    )


def python_path(shell: Shell) -> str:
    return os.pathsep.join(filter(None, [str(shell.folder / "installed"), os.environ.get("PYTHONPATH")]))
