"""PyTorch's own test files on a device: what is run, what a failure is, crashes, hangs, expected failures, going on."""

from __future__ import annotations

import json
import pathlib
import textwrap
from typing import Any

import pytest
from torch_backend.pytorch_tests import cli
from torch_backend.pytorch_tests.checkout import Checkout
from torch_backend.pytorch_tests.device_tests import without_device
from torch_backend.pytorch_tests.expectations import beside, load
from torch_backend.pytorch_tests.pool import Schedule, sample
from torch_backend.pytorch_tests.report import skipped_by

FILE = """
    import os, time
    import torch
    from torch.testing._internal.common_device_type import (
        instantiate_device_type_tests, dtypes, largeTensorTest, onlyCPU, onlyCUDA
    )
    from torch.testing._internal.common_utils import TestCase, dtype_abbrs  # newer PyTorch has it elsewhere

    class TestSome(TestCase):
        @dtypes(torch.float32, torch.int64)
        def test_add(self, device, dtype):
            self.assertEqual(torch.ones(2, device=device, dtype=dtype) + 1, torch.full((2,), 2, dtype=dtype))

        @onlyCUDA
        def test_on_gpus(self, device):
            self.assertNotEqual(torch.device(device).type, "cpu")

        @onlyCPU
        def test_cpu_alone(self, device):
            self.assertEqual(torch.device(device).type, "cpu")

        @onlyCUDA
        @largeTensorTest("1GB", "cuda")
        def test_much_memory(self, device):
            self.assertGreaterEqual(torch.get_device_module(device).mem_get_info()[0], 2**30)

        @largeTensorTest("900000GB", "cuda")
        def test_too_much_memory(self, device):
            raise RuntimeError("this must not run")

        def test_wrong_everywhere(self, device):
            self.assertEqual(torch.ones(1, device=device), torch.zeros(1))

        def test_wrong_here(self, device):
            self.assertEqual(torch.device(device).type, "cpu")

        def test_skipped(self, device):
            self.skipTest("Only runs on cuda")

        def test_falls_back(self, device):
            torch.linalg.qr(torch.ones(2, 2, device=device))

        def test_zz_ends(self, device):
            if torch.device(device).type != "cpu":
                os.abort()

        def test_zz_sleeps(self, device):
            if torch.device(device).type != "cpu":
                time.sleep(60)

    class TestForTheCpu(TestCase):
        def test_add(self, device):
            self.assertEqual(torch.device(device).type, "cpu")

    class TestWithoutDevice(TestCase):
        def test_add(self):
            raise RuntimeError("this must not run")

    instantiate_device_type_tests(TestSome, globals(), only_for=("cpu", "cuda"))
    instantiate_device_type_tests(TestForTheCpu, globals(), only_for="cpu")
"""


@pytest.fixture
def checkout(tmp_path: pathlib.Path) -> pathlib.Path:
    root = tmp_path / "pytorch"
    (root / "test").mkdir(parents=True)
    (root / "version.txt").write_text("2.6.0a0\n")
    (root / "test" / "test_torch.py").write_text(textwrap.dedent(FILE))
    (root / "test" / "test_broken.py").write_text("import no_such_module\n")
    return root


def run(checkout: pathlib.Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    results = checkout.parent / "results"
    status = cli.main(["--source", str(checkout), "--results", str(results), "--workers", "1", *arguments])
    return status, json.loads((results / "report.json").read_text()) if status < 2 else {}


QUIET = "*add*,*cpu_alone,*on_gpus*,*everywhere,*skipped"


def test_tests_run_on_the_device_beside_the_cpu(checkout: pathlib.Path) -> None:
    """A test for CUDA runs, one for the CPU or without a device does not, what fails on the CPU too fails no run."""
    status, report = run(checkout, "test_torch", "--test", QUIET)
    assert status == 0
    counts = report["files"]["test_torch"]
    assert {name: counts[name] for name in ("executed", "decided", "passed", "failed", "skipped")} == {
        "executed": 4,
        "decided": 3,
        "passed": 3,
        "failed": 0,
        "skipped": 2,
    }
    assert counts["fail on stock cpu too"] == 1
    assert report["skipped by"] == {"a list of devices": 2}


def test_a_failure_on_the_device_alone_fails_the_run_unless_it_is_explained(
    checkout: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, report = run(checkout, "test_torch", "--test", f"{QUIET},*here")
    assert status == 1
    assert report["verdict"] == ["1 failures have no entry in the list of expected ones"]
    assert "FAILED test_torch TestSome.test_wrong_here: AssertionError" in capsys.readouterr().out
    entry = """
        [[expected]]
        file = "test_torch"
        test = "TestSome.{test}"
        kind = "names a device"
        reason = "it compares the device's name"
    """
    mine = checkout.parent / "mine.toml"
    mine.write_text(textwrap.dedent(entry.format(test="test_wrong_here")))
    status, report = run(checkout, "test_torch", "--test", f"{QUIET},*here", "--expected", str(mine))
    assert status == 0
    assert report["files"]["test_torch"]["expected"] == 1
    mine.write_text(textwrap.dedent(entry.format(test="test_add*")))
    status, report = run(checkout, "test_torch", "--test", QUIET, "--expected", str(mine))
    assert status == 1
    assert "the entry test_torch TestSome.test_add* expects a failure, and 2 of its tests pass" in report["verdict"][0]
    mine.write_text(textwrap.dedent(entry.format(test="test_add*")) + "strict = false\n")
    assert run(checkout, "test_torch", "--test", QUIET, "--expected", str(mine))[0] == 0


def test_an_error_can_be_the_cause_of_failures_of_tests_that_pass_elsewhere(checkout: pathlib.Path) -> None:
    mine = checkout.parent / "mine.toml"
    mine.write_text('[[expected]]\nerror = "\'tb\' != \'cpu\'"\nkind = "names a device"\nreason = "it does"\n')
    status, report = run(checkout, "test_torch", "--test", f"{QUIET},*here", "--expected", str(mine))
    assert status == 0, report["verdict"]
    assert report["files"]["test_torch"]["expected"] == 1
    mine.write_text('[[expected]]\nkind = "pytorch"\nreason = "everything"\n')
    with pytest.raises(ValueError, match="neither test nor error: it would cover every failure"):
        load([mine], "cpu", "2.6.0")


def test_large_tests_ask_the_memory_of_the_device(checkout: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TB_CPU_MEMORY", "4G")
    status, report = run(checkout, "test_torch", "--test", "*memory")
    assert (status, report["files"]["test_torch"]["passed"], report["skipped by"]) == (0, 1, {"memory": 1})


def test_failed_tests_run_again_where_they_are_asked_for(checkout: pathlib.Path) -> None:
    run(checkout, "test_torch", "--test", "*add*,*here")
    file = checkout / "test" / "test_torch.py"
    file.write_text(
        file.read_text().replace('type, "cpu")\n\n    def test_skipped', 'type[:0], "")\n\n    def test_skipped')
    )
    assert run(checkout, "test_torch", "--test", "*add*,*here")[0] == 1
    status, report = run(checkout, "test_torch", "--test", "*add*,*here", "--retry")
    assert (status, report["files"]["test_torch"]["passed"]) == (0, 3)


def test_a_vendors_entries_are_beside_his_driver(tmp_path: pathlib.Path) -> None:
    assert beside("") == beside(str(tmp_path / "libmychip.so")) == []
    (tmp_path / "pytorch_tests.toml").touch()
    assert beside(str(tmp_path / "libmychip.so")) == [tmp_path / "pytorch_tests.toml"]


def test_a_crash_and_a_hang_are_the_result_of_their_test(
    checkout: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, report = run(checkout, "test_torch", "--test", "*add*,*zz*", "--test-limit", "5")
    assert status == 1
    out = capsys.readouterr().out
    assert "TestSome.test_zz_ends: crash: signal SIGABRT" in out
    assert "TestSome.test_zz_sleeps: hang: no result after" in out
    assert report["files"]["test_torch"]["passed"] == 2


def test_a_stopped_run_goes_on(checkout: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(checkout, "test_torch", "--test", "*add*")
    capsys.readouterr()
    status, report = run(checkout, "test_torch", "--test", "*add*,*on_gpus*")
    assert "2 results are there from an earlier run" in capsys.readouterr().out
    assert (status, report["files"]["test_torch"]["executed"]) == (0, 3)
    log = checkout.parent / "results" / "log.jsonl"
    log.write_text(log.read_text().replace("2.6.0", "2.5.0", 1))
    assert run(checkout, "test_torch")[0] == 2
    assert "has the results of another run (tests of was '2.5.0')" in capsys.readouterr().err
    assert run(checkout, "test_torch", "--test", "*add*", "--restart")[0] == 0


def test_a_file_that_cannot_be_imported_is_a_failure(
    checkout: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(checkout, "test_broken")[0] == 1
    assert "test_broken (import): ModuleNotFoundError: No module named 'no_such_module'" in capsys.readouterr().out


def test_nothing_executed_is_a_failure(checkout: pathlib.Path) -> None:
    status, report = run(checkout, "test_torch", "--test", "*skipped")
    assert status == 1
    assert "no test ran on the device" in report["verdict"][0]


def test_fallbacks_are_counted_by_test(checkout: pathlib.Path) -> None:
    status, report = run(checkout, "test_torch", "--test", "*add*,*falls_back")
    assert status == 0
    assert report["files"]["test_torch"]["native"] in (2, 3)  # of 3; qr is native where a driver has it
    assert set(report["fallbacks"].values()) <= {1}


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: pathlib.Path, checkout: pathlib.Path) -> None:
    with pytest.raises(ValueError, match=r"is no checkout of PyTorch: it has no test/test_torch\.py"):
        Checkout(tmp_path)
    with pytest.raises(ValueError, match="has no test_absent"):
        Checkout(checkout).files(["test/test_absent.py"])
    assert Checkout(checkout).files(["./test/test_broken.py"]) == ["test_broken"]
    assert Checkout(checkout).files() == ["test_torch"]


def test_names_have_no_device() -> None:
    assert without_device("test_tb_copies_tb_float32", "tb") == "test_tb_copies_float32"
    assert without_device("test_add", "tb") == "test_add"


def test_an_entry_needs_a_reason_and_a_known_kind(tmp_path: pathlib.Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('[[expected]]\nfile = "a"\ntest = "b"\nkind = "pytorch"\n')
    with pytest.raises(ValueError, match="has no reason"):
        load([mine], "cpu", "2.6.0")
    mine.write_text('[[expected]]\nfile = "a"\ntest = "b"\nkind = "whim"\nreason = "c"\n')
    with pytest.raises(ValueError, match="has the kind 'whim', not one of"):
        load([mine], "cpu", "2.6.0")
    mine.write_text('[[expected]]\nfile = "a"\ntest = "b"\nkind = "pytorch"\nreason = "c"\ndriver = "sim"\n')
    assert [len(load([mine], driver, "2.6.0")) for driver in ("cpu", "sim")] == [0, 1]


def test_a_sample_is_drawn_by_the_seed_and_keeps_the_order() -> None:
    tests = [f"test_{number}" for number in range(100)]
    drawn = sample(tests, 10, 0)
    assert drawn == sample(tests, 10, 0) == sorted(drawn, key=tests.index)
    assert len(drawn) == 10
    assert drawn != sample(tests, 10, 1)
    assert sample(tests, 0, 0) == tests


def test_workers_share_a_large_file() -> None:
    schedule = Schedule(["small"], [("large", [f"test_{number}" for number in range(250)])])
    first = schedule.take("large")
    assert first is not None
    assert first[1] is not None
    assert (first[0], len(first[1])) == ("large", 100)
    assert schedule.take(None) == ("small", None)
    schedule.list_file("small", ["test_a"])
    assert schedule.take("small") == ("small", ["test_a"])
    assert [len(chunk[1] or []) for chunk in iter(lambda: schedule.take("large"), None)] == [100, 50]


@pytest.mark.parametrize(
    ("reason", "who"),
    [
        ("Only runs on ['cuda', 'xpu']", "a list of devices"),
        ("fewer than 2 devices detected", "the number of devices"),
        ("test is slow; run with PYTORCH_TEST_WITH_SLOW to enable test", "PyTorch, as slow"),
        ("NumPy not found", "a package that is missing"),
        ("Insufficient tb:0 memory", "memory"),
        ("Skipped!", "PyTorch, on every device"),
    ],
)
def test_skips_are_sorted_by_who_decides(reason: str, who: str) -> None:
    assert skipped_by(reason) == who
