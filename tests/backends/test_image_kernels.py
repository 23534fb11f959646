"""Kernels of an image (image_kernels.c): called from Python, and registered for operators, where images are loaded."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Callable

import pytest
from conftest import ROOT, compile_c

PRELUDE = """
import ctypes, os, torch, tb_ops
torch.manual_seed(0)
load = lambda entry: tb_ops.load_kernel(os.environ["IMAGE"], entry)
on_tb = lambda *sizes: torch.randn(*sizes).to("tb")

def raised(f):
    try:
        f()
    except Exception as error:
        return type(error).__name__ + ": " + str(error).splitlines()[0]
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    file = tmp_path_factory.mktemp("image") / "image_kernels.so"
    compile_c(pathlib.Path(__file__).with_name("image_kernels.c"), file, "-O1")
    return file


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run_with(image: pathlib.Path, run_python: Run) -> Run:
    def run(code: str, driver: str, **env: str) -> subprocess.CompletedProcess[str]:
        return run_python(PRELUDE + code, env={"IMAGE": str(image), "TB_DRIVER": driver, **env})

    return run


drivers = pytest.mark.parametrize("driver", ["sim", "cpu"])


@drivers
def test_a_kernel_is_called_with_tensors_and_numbers(run_with: Run, driver: str) -> None:
    code = """
scale, blocks = load("scale"), load("blocks")
x, bias = on_tb(30, 40), on_tb(40)
out = torch.empty_like(x)
scale(x, 2.5, bias, 3, out)
torch.testing.assert_close(out.cpu(), (x.cpu() * 2.5 + bias.cpu()) * 3)
scale(x, 1.0, None, True, out, block=7)
assert torch.equal(out.cpu(), x.cpu())
scale(x[:0], 1.0, None, 1, out[:0])
seen = torch.zeros(6, dtype=torch.int64, device="tb")
blocks(seen, grid=(3, 2), block=4, shared=16)
assert seen.tolist() == [2 * 10000 + 4 * 100 + 16] * 6, seen
blocks(seen, block=2)
assert seen.tolist()[:3] == [1 * 10000 + 2 * 100] * 3 and seen.tolist()[3] == 20416, seen
stream = torch.tb.Stream()
with stream:
    scale(x, ctypes.c_double(4.0), None, 1, out)
stream.synchronize()
assert torch.equal(out.cpu(), x.cpu() * 4)
"""
    run_with(code, driver)


def test_a_capture_contains_kernels_of_images(run_with: Run) -> None:
    code = """
scale = load("scale")
load("described").register("aten::erfinv.out")
x, out = on_tb(4, 6), torch.zeros(4, 6, device="tb")
scale(x, 2.0, None, 1, out), torch.erfinv(x)  # a capture runs nothing for the first time
out.zero_()
graph = torch.tb.Graph()
with torch.tb.graph(graph):
    scale(x, 3.0, None, 2, out)
    described = torch.erfinv(out)
assert out.cpu().count_nonzero() == 0  # nothing ran yet
assert tb_ops.vendor_kernels()[0].calls == 2 and not tb_ops.vendor_kernels()[0].left, tb_ops.vendor_kernels()
for _ in range(2):
    x.copy_(torch.randn(4, 6))
    graph.replay()
    torch.testing.assert_close(out.cpu(), x.cpu() * 6)
    assert torch.equal(described.cpu(), out.cpu() + 1000 * 2 + 100 * 4 + 8)
assert not tb_ops.fallbacks()
"""
    run_with(code, "cpu")


def test_what_a_kernel_cannot_take_is_refused_by_name(run_with: Run) -> None:
    code = """
scale = load("scale")
x = on_tb(4, 6)
for f in (
    lambda: scale(x.t(), 1.0, None, 1, x),
    lambda: scale(x.cpu(), 1.0, None, 1, x),
    lambda: scale(1.0),
    lambda: scale(x, "text"),
    lambda: scale(x, block=(4, 4)),
    lambda: load("no_such_kernel")(x),
    lambda: load("scale").register("aten::no_such.out"),
    lambda: load("scale").register("aten::erfinv"),
    lambda: load("scale").register("aten::gelu.out"),
    lambda: load("scale").register("aten::erfinv.out", dtypes=[torch.float8_e5m2]),
):
    print(raised(f))
assert tb_ops.vendor_kernels() == []
"""
    lines = run_with(code, "sim").stdout.splitlines()
    for line, expected in zip(
        lines,
        [
            "RuntimeError: A kernel of an image takes contiguous tensors",
            "RuntimeError: scale needs tensors of one tb device, and got cpu, tb:0",
            "RuntimeError: scale needs tensors of one tb device, and got no tensor",
            "TypeError: scale takes tensors, numbers, None and values of ctypes",
            "TypeError: scale: a block of several dimensions",
            "no_such_kernel",
            "RuntimeError: There is no operator aten::no_such.out for the kernel scale",
            "cannot serve aten::erfinv: it has no outputs as arguments",
            "RuntimeError: An image cannot serve aten::gelu.out: its argument approximate is of the type",
            "ValueError: scale cannot serve torch.float8_e5m2",
        ],
        strict=True,
    ):
        assert expected in line


@drivers
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_registered_kernel_serves_all_forms_and_leaves_other_calls(run_with: Run, driver: str, when: str) -> None:
    code = f"""
if {when == "after"}:
    torch.ones(1, device="tb")
load("described").register("aten::erfinv.out")
load("lerp").register("aten::lerp.Scalar_out", dtypes=[torch.float32, torch.bfloat16])
x, y = torch.rand(4, 6), torch.rand(4, 6)
changed = x + 1000 * 2 + 100 * 4 + 8
assert torch.equal(torch.erfinv(x.to("tb")).cpu(), changed)
u = x.to("tb")
assert torch.equal(u.erfinv_().cpu(), changed)
assert torch.equal(torch.erfinv(x.to("tb"), out=u).cpu(), changed)
torch.testing.assert_close(torch.erfinv(x.to("tb").double()).cpu(), torch.erfinv(x.double()))
torch.testing.assert_close(torch.lerp(x.to("tb"), y.to("tb"), 0.25).cpu(), torch.lerp(x, y, 0.25))
torch.testing.assert_close(torch.lerp(x.to("tb").t(), y.to("tb").t(), 0.25).cpu(), torch.lerp(x.t(), y.t(), 0.25))
erfinv, lerp = tb_ops.vendor_kernels()
assert erfinv == ("described", "aten::erfinv.out", os.environ["IMAGE"], 3, {{"output: dtype Double": 1}}, ""), erfinv
assert lerp[3:] == (1, {{"output: layout strided": 1}}, ""), lerp
assert [row.serves for row in tb_ops.backends() if row.name == "vendor"] == [True]
"""
    run_with(code, driver)


def test_the_kernel_that_was_registered_last_is_asked_first(run_with: Run) -> None:
    code = """
x = torch.rand(4)
assert [row.serves for row in tb_ops.backends() if row.name == "vendor"] == [False]
for _ in range(2):
    load("described").register("aten::erfinv.out")
torch.erfinv(x.to("tb"))
assert [kernel.calls for kernel in tb_ops.vendor_kernels()] == [0, 1]
"""
    run_with(code, "sim")


def test_a_driver_without_modules_refuses_images(
    run_with: Run, tmp_path: pathlib.Path, compile_driver: Callable[[pathlib.Path], pathlib.Path]
) -> None:
    template = ROOT / "packages" / "tb-device" / "src" / "tb_device" / "new_driver" / "c" / "mychip.c"
    code = """
x = on_tb(4)
print(raised(lambda: load("scale")(x, 1.0, None, 1, x)))
"""
    text = run_with(code, str(compile_driver(template))).stdout
    assert text.startswith("NotImplementedError: The kernel scale is in an image, and the driver mychip loads none"), (
        text
    )
