"""A set of operators of a package beside tb-ops (added_backend.cpp): its place, its kernels, and what can be wrong."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Callable

import pytest
from conftest import ROOT, compile_extension, write_metadata

ALL = ["host", "torch_cuda", "jit", "aclnn", "host_copy", "added", "vendor"]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder as a wheel installs it: an extension module, and metadata with the entry point."""
    folder = tmp_path_factory.mktemp("added")
    source = pathlib.Path(__file__).with_name("added_backend.cpp")
    compile_extension(source, folder / "added.so", f"-I{ROOT / 'shared' / 'include'}")
    write_metadata(folder, "added-ops", "[tb.operator_backends]\nadded = added:backend\n")
    return folder


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run_beside(package: pathlib.Path, run_python: Run) -> Run:
    """Runs a program in an interpreter that finds the package."""

    def run(code: str, *, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        return run_python(code, env={"PYTHONPATH": str(package), **env}, check=check)

    return run


@pytest.mark.parametrize(("driver", "gelu_before"), [("cpu", "taken taken"), ("sim", "free taken")])
def test_its_kernels_run_and_replace_those_of_tb_ops_on_every_driver(
    run_beside: Run, driver: str, gelu_before: str
) -> None:
    done = run_beside(
        f"""
        import torch, tb_ops
        from tb_ops import coverage
        x = torch.rand(8) / 2
        assert torch.equal(torch.erfinv(x.to("tb")).cpu(), x * 1000)
        assert torch.equal(torch.nn.functional.gelu(x.to("tb")).cpu(), x * 2000)
        assert not tb_ops.fallbacks(), tb_ops.fallbacks()
        [row] = [row for row in tb_ops.backends() if row.source != "tb-ops"]
        assert row == ("added", True, "operators of added", "every driver, for tests", "added-ops 1.0, added:backend")
        assert [row.name for row in tb_ops.backends()] == {ALL}
        listing = coverage.operators()
        owned = sorted(operator.name for operator in listing if operator.backend == "added")
        assert owned == ["aten::erfinv", "aten::gelu"], owned
        [line] = [line for line in coverage.summary(listing).splitlines() if " added " in line]
        assert "kernels for 2 overloads; from added-ops 1.0, added:backend" in line, line
        import added
        assert (saw := added.counts()[0::2]) == (2, saw[1])
        print(saw[1])
        """,
        TB_DRIVER=driver,
    )
    erfinv_before = "taken" if driver == "cpu" else "free"
    assert done.stdout.strip() == f"{driver} {erfinv_before} {gelu_before} free"
    assert "previously registered" not in done.stderr


def test_the_last_element_copy_that_is_set_is_asked_first(run_beside: Run) -> None:
    run_beside(
        """
        import torch, added
        x = torch.arange(12.0).reshape(3, 4)
        y = x.to("tb")
        before = added.counts()[1]
        assert torch.equal(y.t().contiguous().cpu(), x.t().contiguous())  # by the slower way, as the copy refuses
        assert added.counts()[1] > before
        """,
        TB_DRIVER="sim",
    )


def test_before_another_set_the_other_ones_kernels_run(run_beside: Run) -> None:
    run_beside(
        f"""
        import torch, tb_ops
        names = {ALL}
        names.remove("added")
        names.insert(names.index("host"), "added")
        x = torch.rand(8) / 2
        torch.testing.assert_close(torch.erfinv(x.to("tb")).cpu(), torch.erfinv(x))
        assert [row.name for row in tb_ops.backends()] == names, tb_ops.backends()
        """,
        TB_DRIVER="cpu",
        ADDED_BEFORE="host",
    )


def test_one_that_does_not_serve_the_driver_registers_nothing(run_beside: Run) -> None:
    run_beside(
        """
        import torch, tb_ops, added
        x = torch.rand(8) / 2
        torch.testing.assert_close(torch.erfinv(x.to("tb")).cpu(), torch.erfinv(x))
        assert added.counts() == (0, 0, "cpu")
        assert [row.serves for row in tb_ops.backends() if row.name == "added"] == [False]
        """,
        TB_DRIVER="cpu",
        ADDED_SERVES="0",
    )


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("capsule", 'added:backend gave <capsule object "tb.operator_backend.v0"'),
        ("none", "added:backend gave None and no capsule named tb.operator_backend.v1"),
        ("torch", "added-ops 1.0, added:backend was built for torch 2."),
        ("size", "its tb_operator_backend has 16 bytes, and this tb-ops reads"),
        ("install", "its tb_operator_backend has no function `install`"),
        ("taken", "The operator backend jit of added-ops 1.0, added:backend has the name of one of tb-ops"),
    ],
)
def test_one_that_is_wrong_is_named(run_beside: Run, fault: str, text: str) -> None:
    program = """
    import torch
    for _ in range(2):  # nothing is kept of a failure
        try:
            torch.ones(1, device="tb")
        except RuntimeError as error:
            print(str(error).splitlines()[0])
    """
    lines = run_beside(program, TB_DRIVER="cpu", ADDED_FAULT=fault).stdout.splitlines()
    assert [text in line for line in lines] == [True, True], lines


def test_a_place_that_is_not_there_is_named(run_beside: Run) -> None:
    done = run_beside('import torch; torch.ones(1, device="tb")', check=False, TB_DRIVER="cpu", ADDED_BEFORE="nothing")
    assert done.returncode == 1
    assert "added-ops 1.0, added:backend registers before nothing, which is not there" in done.stderr
    assert "There are host, torch_cuda, jit, aclnn, host_copy, vendor" in done.stderr


def test_a_function_that_raises_is_named(run_beside: Run, package: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "added.py").write_text("def backend():\n    raise OSError('no licence')\n")
    (tmp_path / "added_ops-1.0.dist-info").symlink_to(package / "added_ops-1.0.dist-info")
    program = 'import torch; torch.ones(1, device="tb")'
    done = run_beside(program, check=False, TB_DRIVER="cpu", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "the entry point added (added:backend) of tb.operator_backends gave no operator backend" in done.stderr
    assert "OSError: no licence" in done.stderr
