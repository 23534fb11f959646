"""The CPU fallback gives stock CPU's results, also for views, and refuses with a reason what it does not support."""

from __future__ import annotations

import pathlib
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tb_device
import torch
from conftest import RunPython
from torch_backend.conformance.bits import bit_identical

tb: Any = torch.tb  # type: ignore[attr-defined]

CompileDriver = Callable[[pathlib.Path], pathlib.Path]


@pytest.fixture(autouse=True)
def fallbacks_allowed() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tb.set_fallback_mode("allow")
        tb.reset_fallbacks()
        yield
        tb.set_fallback_mode("warn")


def fell_back() -> set[str]:
    return {row.operator for row in tb.fallbacks()}


def complex_matrix() -> torch.Tensor:
    return torch.view_as_complex(torch.arange(18.0).reshape(3, 3, 2).sin())


# ---- views and aliasing ----------------------------------------------------------------------------------------------

VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "aten::view": lambda x: x.view(2, 6),
    "aten::as_strided": lambda x: x.as_strided((2, 2), (5, 1), 1),
    "aten::unfold": lambda x: x.unfold(0, 2, 2),
    "aten::select.int": lambda x: x[1],
    "aten::slice.Tensor": lambda x: x[1:3],
    "aten::transpose.int": lambda x: x.t(),
    "aten::diagonal": lambda x: x.diagonal(),
    "aten::expand": lambda x: x[0].expand(2, 3),
    "aten::view_as_complex": lambda x: torch.view_as_complex(x.view(3, 2, 2)),
    "aten::detach": lambda x: x.detach(),
}


@pytest.mark.parametrize("operator", VIEWS)
def test_a_view_made_by_the_fallback_shares_memory(operator: str) -> None:
    cpu, here = torch.arange(12.0).view(4, 3), torch.arange(12.0).view(4, 3).to("tb")
    expected = VIEWS[operator](cpu)
    with tb.force_fallback(operator):
        view = VIEWS[operator](here)
    assert operator in fell_back()
    assert view.device == here.device
    assert (view.shape, view.stride(), view.storage_offset()) == (
        expected.shape,
        expected.stride(),
        expected.storage_offset(),
    )
    assert view.untyped_storage().data_ptr() == here.untyped_storage().data_ptr()
    here.mul_(2)
    assert bit_identical(view.cpu(), VIEWS[operator](cpu * 2))


def test_gradients_flow_through_in_place_changes_of_such_views() -> None:
    def gradient(device: str) -> torch.Tensor:
        x = torch.arange(6.0, device=device).requires_grad_()
        y = x * 1
        y.view(2, 3)[0].mul_(3)
        y.sum().backward()  # type: ignore[no-untyped-call]
        assert x.grad is not None
        return x.grad.cpu()

    with tb.force_fallback("aten::view", "aten::select.int", "aten::mul_.Tensor"):
        assert bit_identical(gradient("tb"), gradient("cpu"))
    assert {"aten::view", "aten::select.int", "aten::mul_.Tensor"} <= fell_back()


def test_on_a_driver_with_memory_of_its_own_the_fallback_keeps_views_and_strides(
    run_python: RunPython, compile_driver: CompileDriver, tmp_path: pathlib.Path
) -> None:
    source = (pathlib.Path(tb_device.__file__).parent / "new_driver" / "c" / "mychip.c").read_text()
    closed = tmp_path / "closedchip.c"
    closed.write_text(source.replace("TB_DEVICE_HOST_ACCESSIBLE", "0"))
    assert closed.read_text() != source
    code = """
        import torch
        z = torch.randn(3, 3, dtype=torch.complex64)
        x = z.to("tb")
        assert torch.equal(x.conj().cpu(), z.conj())
        assert torch.equal(x.conj().imag.cpu(), z.conj().imag)
        assert torch.allclose((x.conj() @ x).cpu(), z.conj() @ z)
        out = torch.zeros(2, device="tb")
        assert torch.add(torch.ones(2, device="tb"), 1, out=out) is out and out.tolist() == [2, 2]
        assert torch.nansum(torch.ones(2, 3, device="tb"), 0, out=torch.empty(0, device="tb")).tolist() == [2, 2, 2]
        rows = {row.operator: row for row in torch.tb.fallbacks()}
        assert rows["aten::nansum.out"].bytes == 24  # the empty out tensor counts as it came
        with torch.tb.force_fallback("aten::view"):
            view = x.view(9)
        view.zero_()
        assert x.cpu().count_nonzero() == 0
        transposed = torch.linalg.lu_factor_ex(torch.eye(3, device="tb"))[0]
        assert transposed.stride() == torch.linalg.lu_factor_ex(torch.eye(3))[0].stride() == (1, 3)
        row = torch.zeros(1, 4, device="tb")
        shared = row.expand(3, 4)
        torch.ops.aten.index_fill_(row.t()[1:3], 0, torch.tensor([0], device="tb"), 5.0)
        assert shared.tolist() == [[0, 5, 0, 0]] * 3
        whole = torch.arange(4.0, device="tb")
        torch.nansum(torch.ones(2, 6, device="tb"), 0, out=whole[2:])
        assert whole.tolist() == [0, 1, 2, 2]
        print("kept")
    """
    done = run_python(code, {"TB_DRIVER": str(compile_driver(closed)), "TB_FALLBACK": "allow"})
    assert done.stdout.endswith("kept\n")


def test_operators_on_storages_cannot_be_forced() -> None:
    with (
        pytest.raises(
            NotImplementedError, match=r"set_\.source_Storage takes a storage, which has no alias on the CPU"
        ),
        tb.force_fallback("aten::set_.source_Storage"),
    ):
        pass


def test_results_are_not_written_into_memory_that_another_thread_s_queued_work_still_uses() -> None:
    stop = threading.Event()

    def churn() -> None:
        load = torch.ones(100_000, device="tb")
        while not stop.is_set():
            load.sin_()
            for _ in range(5):
                torch.full((64,), -1.0, device="tb").mul_(2)  # freed while the multiplication is queued
            torch.accelerator.synchronize()

    thread = threading.Thread(target=churn)
    thread.start()
    x = torch.arange(64.0, device="tb").view(64, 1).repeat(1, 500)  # large enough that the fallback takes a while
    try:
        with tb.force_fallback("aten::mode"):
            for _ in range(60):
                assert torch.mode(x, 1).values.tolist() == list(range(64))
    finally:
        stop.set()
        thread.join()
    assert "aten::mode" in fell_back()


# ---- conj and neg bits -----------------------------------------------------------------------------------------------

BITS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "conj copied to the host": lambda z: z.conj(),
    "neg copied to the host": lambda z: z.conj().imag,
    "conj of neg copied to the host": lambda z: torch.view_as_complex(torch.view_as_real(z)).conj().t(),
    "conj copied into conj": lambda z: torch.zeros_like(z).conj().copy_(z.conj()),
    "conj copied into plain": lambda z: torch.zeros_like(z).copy_(z.conj()),
    "plain copied into conj": lambda z: torch.zeros_like(z).conj().copy_(z),
    "neg copied into plain": lambda z: torch.zeros(3, 3, device=z.device).copy_(z.conj().imag),
    "a fallback of conj": lambda z: torch.linalg.householder_product(z.conj(), z[0].conj()),
    "a fallback into conj": lambda z: torch.linalg.householder_product(z, z[0], out=torch.zeros_like(z).conj()),
    "a fallback of neg": lambda z: torch.mode(z.conj().imag, 0).values,
    "in place on conj": lambda z: z.clone().conj().mul_(2j),
    "in place on neg": lambda z: z.clone().conj().imag.mul_(3),
}


@pytest.mark.parametrize("name", BITS)
def test_conj_and_neg_bits_are_right(name: str) -> None:
    z = complex_matrix()
    with tb.force_fallback("aten::mul_.Tensor"):
        result = BITS[name](z.to("tb"))
    expected = BITS[name](z)
    assert result.device.type == "tb"
    assert bit_identical(result.cpu().resolve_conj().resolve_neg(), expected.resolve_conj().resolve_neg())


# ---- out= and other devices ------------------------------------------------------------------------------------------


def test_an_out_tensor_keeps_its_identity_and_grows() -> None:
    out = torch.empty(0, device="tb")
    alias = out.view(0)
    assert torch.nansum(torch.ones(3, 4, device="tb"), 0, out=out) is out
    assert out.tolist() == [3, 3, 3, 3]
    assert alias.untyped_storage().data_ptr() == out.untyped_storage().data_ptr()


def test_results_keep_the_cpu_s_strides() -> None:
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    with tb.force_fallback("aten::relu"):
        assert x.to("tb").relu().stride() == x.relu().stride()


def test_copies_to_meta_have_shapes_only_and_copies_from_it_are_errors() -> None:
    x = complex_matrix().to("tb")
    assert x.conj().to("meta").shape == x.shape
    meta = torch.empty(3, 3, device="meta", dtype=x.dtype)
    assert meta.copy_(x) is meta
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        x.copy_(meta)
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        meta.to("tb")


def test_forward_mode_zeros_have_no_memory() -> None:
    zeros = torch._efficientzerotensor(3, device="tb")
    assert zeros._is_zerotensor()
    assert (zeros + torch.ones(3, device="tb")).tolist() == [1, 1, 1]


# ---- unsupported kinds of tensors ------------------------------------------------------------------------------------

eye = torch.eye(3)
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "mkldnn": (lambda: eye.to("tb").to_mkldnn(), "is of layout Mkldnn"),
    "quantizing": (
        lambda: torch.quantize_per_tensor(eye.to("tb"), 0.1, 0, torch.quint8),
        "quantize_per_tensor is quantized, which tb tensors cannot be",
    ),
    "quantized moved": (
        lambda: torch.quantize_per_tensor(eye, 0.1, 0, torch.quint8).to("tb"),
        "no quantized tensors.*dequantize",
    ),
    "an operator of sparse tensors": (
        lambda: torch.ops.aten._indices(eye.to("tb")),
        "aten::_indices has no kernel on this tb device, nor one on the CPU",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_tensors_are_refused_with_a_remedy(name: str) -> None:
    call, text = REFUSED[name]
    with pytest.raises(NotImplementedError, match=text):
        call()


def test_jagged_nested_tensors_work() -> None:
    rows = [torch.ones(2), torch.arange(3.0)]
    nested = torch.nested.nested_tensor(rows, device="tb", layout=torch.jagged).sin()
    for row, expected in zip(nested.unbind(), rows, strict=True):
        assert bit_identical(row.cpu(), expected.sin())


# ---- errors of queued work -------------------------------------------------------------------------------------------


CRASHING = """
    import torch
    def bad(x, row):
        return x.index_select(0, torch.tensor([row], device="tb"))
    bad(torch.ones(3, 4, device="tb"), 2)
    try:
        y = bad(torch.ones(3, 4, device="tb"), 7)
    except IndexError as error:
        lines = error.__traceback__
        while lines.tb_next: lines = lines.tb_next
        print("at once, in", lines.tb_frame.f_code.co_name, error)
    else:
        try: y.cpu()
        except IndexError: print("late")
    print(torch.ones(3, device="tb").sum().item())
"""


def test_launch_blocking_raises_at_the_line_that_caused_it(run_python: RunPython) -> None:
    done = run_python(CRASHING, {"TB_LAUNCH_BLOCKING": "1"})
    assert "at once, in bad" in done.stdout
    assert "aten::index_select" in done.stdout
    assert "3.0" in done.stdout
    assert "late" in run_python(CRASHING, {"TB_LAUNCH_BLOCKING": "0"}).stdout


def test_another_value_of_launch_blocking_is_an_error(run_python: RunPython) -> None:
    done = run_python("import torch; torch.ones(1, device='tb')", {"TB_LAUNCH_BLOCKING": "yes"}, check=False)
    assert done.returncode != 0
    assert "TB_LAUNCH_BLOCKING=yes is neither 0 nor 1" in done.stderr


def test_a_fused_optimizer_takes_its_rate_from_the_host(run_python: RunPython) -> None:
    code = """
        import torch
        steps = []
        for device in ("cpu", "tb"):
            weight = torch.arange(6.0, device=device).requires_grad_()
            weight.grad = torch.ones_like(weight)
            torch.optim.Adagrad([weight], lr=torch.tensor(0.5), fused=True).step()
            steps.append(weight.detach().cpu())
        torch.testing.assert_close(*steps)
        print("equal")
    """
    assert run_python(code, {"TB_DRIVER": "sim", "TB_FALLBACK": "allow"}).stdout.splitlines()[-1] == "equal"
