"""Kernels in C from a library beside the cpu driver (vendor_kernels.c): which calls they take, and who runs the others.

In each program `stock(f, *tensors)` is f on the CPU; `calls()` says how many calls each entry ran, `left(name)` what it
left to others by the reason, since the last question.
"""

from __future__ import annotations

import pathlib
import subprocess
import textwrap
from collections.abc import Callable

import pytest
from conftest import compile_c, write_metadata

PRELUDE = """
import ctypes, os, torch, tb_ops
torch.manual_seed(0)
library = ctypes.CDLL(os.environ["VENDOR_LIBRARY"])
seen = {}

def new(count, key):
    before, seen[key] = seen.get(key, 0), count
    return count - before

def calls():
    found = {k.name[7:]: new(k.calls, (k.name, "")) for k in tb_ops.vendor_kernels()}
    return {name: count for name, count in found.items() if count}

def left(name):
    [entry] = [k for k in tb_ops.vendor_kernels() if k.name == "vendor." + name]
    found = {reason: new(count, (name, reason)) for reason, count in entry.left.items()}
    return {reason: count for reason, count in found.items() if count}

def check(f, *tensors, tolerance=1e-6):
    got, expected = f(*[t.to("tb") for t in tensors]), f(*tensors)
    for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (got, expected)], strict=True):
        assert a.dtype == b.dtype and a.stride() == b.stride(), (a.dtype, b.dtype, a.stride(), b.stride())
        torch.testing.assert_close(a.cpu(), b, rtol=tolerance, atol=tolerance)

gelu = torch.nn.functional.gelu
x = torch.randn(4, 8)
"""


@pytest.fixture(scope="module")
def vendor(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder as a vendor's wheel installs it: a module, metadata with the entry point, and the library."""
    folder = tmp_path_factory.mktemp("vendor")
    compile_c(pathlib.Path(__file__).with_name("vendor_kernels.c"), folder / "libvendor.so", "-O1", "-lm")
    (folder / "vendor.py").write_text(f"def library():\n    return {str(folder / 'libvendor.so')!r}\n")
    write_metadata(folder, "vendor", "[tb.kernels]\nvendor = vendor:library\n")
    return folder


@pytest.fixture
def run_beside(
    vendor: pathlib.Path, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program behind the prelude in an interpreter that finds the vendor's package."""

    def run(code: str, *, prelude: str = PRELUDE, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        env = {"PYTHONPATH": str(vendor), "VENDOR_LIBRARY": str(vendor / "libvendor.so"), "TB_DRIVER": "cpu", **env}
        return run_python(prelude + textwrap.dedent(code), env=env, check=check)

    return run


RunBeside = Callable[..., "subprocess.CompletedProcess[str]"]


def test_calls_that_fit_run_by_the_entry_and_all_others_as_before(run_beside: RunBeside) -> None:
    run_beside(
        """
        check(gelu, x)
        assert calls() == {"gelu": 1} and left("gelu") == {}
        check(gelu, x.double())
        assert calls() == {} and left("gelu") == {"output: dtype Double": 1}
        check(lambda t: gelu(t[:, ::2]), x)
        check(lambda t: gelu(t.t()), x)
        assert calls() == {} and left("gelu") == {"output: layout strided": 1, "self: layout strided": 1}, left("gelu")
        check(lambda t: gelu(t, approximate="tanh"), x)
        check(lambda t: gelu(t, approximate="tanh"), x)
        assert calls() == {} and left("gelu") == {"its plan: only the exact form": 2}
        check(gelu, x[:0])
        check(torch.mm, x[:2, :2], x[2:4, :2])
        assert calls() == {} and left("mm") == {"fewer than 16 elements": 1}
        check(torch.mm, x, torch.randn(8, 5))
        assert calls() == {"mm": 1}
        check(lambda a: a * torch.ones(2, 1, 4, 8, device=a.device), x)
        assert calls() == {} and left("mul") == {"output: 4 dimensions": 1}
        assert not tb_ops.fallbacks(), tb_ops.fallbacks()
        """
    )


def test_all_forms_of_an_operator_are_served(run_beside: RunBeside) -> None:
    run_beside(
        """
        def in_place(t):
            u = t + 0
            assert torch.ops.aten.gelu_(u) is u
            return u

        def into(t):
            u = torch.zeros_like(t)
            assert torch.ops.aten.gelu.out(t, out=u) is u
            return u

        def resized(t):
            u = torch.zeros(3, dtype=t.dtype, device=t.device)
            return torch.ops.aten.gelu.out(t, out=u.resize_(0))

        def itself(t):
            u = t + 0
            return torch.ops.aten.gelu.out(u, out=u)

        def shifted(t):
            u = torch.cat([t.flatten(), t.flatten()[:1]])
            out = u[1:].clone()
            torch.mul(u[:-1], 3.0, out=out)
            memory = u.clone()
            try:
                torch.mul(memory[:-1], 3.0, out=memory[1:])
            except RuntimeError as error:
                assert "memory location" in str(error)
                return out
            raise AssertionError("an output that overlaps an input in part is refused")

        for form in (in_place, into, itself):
            check(form, x)
            assert (found := calls()) == {"gelu": 1}, (form, found, left("gelu"))
        check(resized, x)
        check(shifted, x)
        assert (found := calls()) == {"mul": 1}, found
        assert left("mul") == {"an output is in the memory of an argument": 1}, left("mul")
        check(lambda t: tuple(torch.max(t, dim=-1)), x)
        assert calls() == {"max": 1}, left("max")
        check(lambda t: tuple(torch.max(t, dim=0)), x)
        assert calls() == {}
        assert (found := left("max")) == {"its plan: unsupported": 1}, found
        """
    )


def test_numbers_dtypes_and_layouts_are_prepared(run_beside: RunBeside) -> None:
    run_beside(
        """
        check(lambda t: t * 2.5, x)
        check(lambda t: t * 3, x)
        check(lambda t: t * torch.tensor(1.5), x)
        assert calls() == {"mul": 3}
        check(lambda t: t[:, ::2] * t[:, 1::2].half(), x)
        check(lambda t: t.t() * t.t(), x)
        assert calls() == {"mul": 1} and left("mul") == {"output: layout strided": 1}
        check(lambda t: t * t.long(), x)
        assert calls() == {"mul": 1}
        """
    )


def test_a_model_trains_as_on_the_cpu(run_beside: RunBeside) -> None:
    run_beside(
        """
        def losses(device):
            torch.manual_seed(1)
            model = torch.nn.Sequential(torch.nn.Linear(8, 16, bias=False), torch.nn.GELU(), torch.nn.Linear(16, 4))
            model = model.to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            data, found = torch.randn(32, 8).to(device), []
            for _ in range(5):
                optimizer.zero_grad()
                loss = (model(data) ** 2).mean()
                loss.backward()
                optimizer.step()
                found.append(loss.item())
            return found

        torch.testing.assert_close(losses("tb"), losses("cpu"), rtol=1e-5, atol=1e-6)
        assert calls()["gelu"] == 5, calls()
        assert not tb_ops.fallbacks()
        """
    )


def test_errors_of_arguments_are_pytorchs(run_beside: RunBeside) -> None:
    run_beside(
        """
        def text(f):
            try:
                f()
            except (RuntimeError, IndexError) as error:
                return type(error), str(error).splitlines()[0]

        for f in (lambda d: torch.mm(x.to(d), x.to(d)), lambda d: torch.max(x.to(d), dim=3)):
            assert text(lambda: f("tb")) == text(lambda: f("cpu")), (text(lambda: f("tb")), text(lambda: f("cpu")))
            assert text(lambda: f("cpu"))
        assert calls() == {}
        """
    )


def test_a_failing_kernel_is_named(run_beside: RunBeside) -> None:
    done = run_beside("torch.erfinv(torch.rand(4, device='tb'))", check=False)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("torch.AcceleratorError: cpu: vendor.failing(device=0) failed: internal error")
    assert "the vendor's library is broken" in last


def test_plans_are_kept_and_the_oldest_forgotten(run_beside: RunBeside) -> None:
    run_beside(
        """
        count = lambda name: ctypes.c_int.in_dll(library, name).value
        for _ in range(3):
            check(gelu, x)
        assert (count("planned"), count("forgotten")) == (1, 0)
        for size in range(1, 4100):
            gelu(torch.ones(size, device="tb"))
        assert count("planned") == 4100 and count("forgotten") == 4, count("forgotten")
        check(gelu, x)
        assert count("planned") == 4101
        """
    )


def test_a_capture_contains_what_says_that_it_can_be_captured(run_beside: RunBeside) -> None:
    run_beside(
        """
        a, b = torch.randn(4, 8).to("tb"), torch.randn(8, 4).to("tb")
        gelu(torch.mm(a, b))
        gelu(a[:, ::2])  # by the other kernel, which has to have run before a capture
        assert (found := calls()) == {"gelu": 1, "mm": 1}, found
        assert left("gelu") == {"self: layout strided": 1}
        graph = torch.tb.Graph()
        with torch.tb.graph(graph):
            out = gelu(torch.mm(a, b))
        assert (found := calls()) == {"mm": 1}, found
        reason = "the stream captures, and the entry does not say that it can be captured"
        assert (found := left("gelu")) == {reason: 1}, found
        a.copy_(torch.randn(4, 8))
        graph.replay()
        torch.testing.assert_close(out.cpu(), gelu(torch.mm(a.cpu(), b.cpu())), rtol=1e-5, atol=1e-5)
        """
    )


def test_entries_that_serve_nothing_say_why(run_beside: RunBeside) -> None:
    done = run_beside(
        """
        torch.ones(1, device="tb")
        problems = {k.name[7:]: k.problem for k in tb_ops.vendor_kernels() if k.problem}
        assert problems == {
            "unknown": "there is no such operator",
            "composed": "PyTorch composes it of other operators: serve those",
            "functional": "it has no outputs as arguments: name the overload with out=",
        }, problems
        assert {k.source for k in tb_ops.vendor_kernels()} == {os.environ["VENDOR_LIBRARY"]}
        assert [name for name, serves, *_ in tb_ops.backends() if serves][-1] == "vendor"
        """
    )
    assert "vendor.unknown" in done.stderr
    assert "aten::no_such_operator.out" in done.stderr


@pytest.mark.parametrize(
    ("fault", "text"),
    [("table", "has no function `run`"), ("open", "no licence")],
)
def test_a_table_that_is_wrong_is_refused(run_beside: RunBeside, fault: str, text: str) -> None:
    done = run_beside("torch.ones(1, device='tb')", check=False, VENDOR_FAULT=fault)
    assert done.returncode == 1
    assert text in done.stderr
    assert "libvendor.so" in done.stderr


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("def library():\n    raise OSError('no such disk')\n", "gave no path: OSError: no such disk"),
        ("def library():\n    return '/nowhere/libvendor.so'\n", "/nowhere/libvendor.so cannot be loaded"),
        ("import ctypes.util\ndef library():\n    return ctypes.util.find_library('m')\n", "exports no function"),
    ],
)
def test_a_package_that_is_wrong_is_named(
    run_beside: RunBeside, vendor: pathlib.Path, tmp_path: pathlib.Path, module: str, text: str
) -> None:
    (tmp_path / "vendor.py").write_text(module)
    (tmp_path / "vendor-1.0.dist-info").symlink_to(vendor / "vendor-1.0.dist-info")
    program = "import torch\ntorch.ones(1, device='tb')\n"
    done = run_beside(program, prelude="", check=False, PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert text in done.stderr


def test_a_library_may_have_no_kernels_for_a_driver(run_beside: RunBeside) -> None:
    run_beside("torch.ones(1, device='tb')\nassert not tb_ops.vendor_kernels()", TB_DRIVER="sim")
