"""PyTorch's test files for the accelerator of the process: ranks, the CPU beside them, what uses no device, hangs."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import sys
import textwrap
import time
from typing import Any

import pytest
from torch_backend.pytorch_tests import cli
from torch_backend.pytorch_tests.accelerator_tests import error_of_rank, of_so_many_devices
from torch_backend.pytorch_tests.checkout import ACCELERATOR, DEVICE_TYPES, Checkout, kind_of

FILE = """
    import pathlib, subprocess, time
    import torch
    import torch.distributed as dist
    from torch.testing._internal.common_distributed import MultiProcessTestCase, skip_if_lt_x_gpu
    from torch.testing._internal.common_utils import TestCase, dtype_abbrs  # newer PyTorch has it elsewhere

    LIBRARY = torch.library.Library("example_of_ranks", "DEF")  # of an operator that no device has
    LIBRARY.define("negate(Tensor self) -> Tensor")
    LIBRARY.impl("negate", torch.neg, "CPU")
    ACCELERATOR = torch.accelerator.current_accelerator()

    class TestRanks(MultiProcessTestCase):
        world_size = 2

        def setUp(self):
            super().setUp()
            self._spawn_processes()

        @skip_if_lt_x_gpu(2)
        def test_all_reduce(self):
            device = ACCELERATOR.type
            backend = dist.get_default_backend_for_device(device)
            dist.init_process_group(backend, rank=self.rank, world_size=2, store=dist.FileStore(self.file_name, 2))
            value = torch.full((4,), self.rank + 1.0, device=device)
            self.assertEqual(value.device.index, self.rank)
            dist.all_reduce(value)
            self.assertEqual(value.cpu(), torch.full((4,), 3.0))
            torch.ops.example_of_ranks.negate(value)

        def test_wrong_on_rank_1(self):
            self.assertTrue(self.rank == 0 or ACCELERATOR is None)

    class TestOfProcess(TestCase):
        def test_add(self):
            self.assertEqual(torch.ones(2, device=ACCELERATOR) + 1, torch.full((2,), 2.0))

        def test_without_device(self):
            self.assertEqual(torch.ones(1) + 1, torch.full((1,), 2.0))

        def test_wrong_here(self):
            self.assertIsNone(ACCELERATOR)

        def test_wrong_everywhere(self):
            self.assertEqual(torch.ones(1, device=ACCELERATOR), torch.zeros(1))

        def test_zz_sleeps(self):
            if ACCELERATOR is not None:
                child = subprocess.Popen(["sleep", "600"])
                pathlib.Path(__file__).with_name("child").write_text(str(child.pid))
                child.wait()
"""


@pytest.fixture
def checkout(tmp_path: pathlib.Path) -> pathlib.Path:
    root = tmp_path / "pytorch"
    (root / "test" / "distributed").mkdir(parents=True)
    (root / "version.txt").write_text("2.6.0a0\n")
    (root / "test" / "test_torch.py").touch()
    (root / "test" / "distributed" / "test_c10d_common.py").write_text(textwrap.dedent(FILE))
    return root


def run(checkout: pathlib.Path, tests: str, *arguments: str) -> tuple[int, dict[str, dict[str, str]], pathlib.Path]:
    """The exit status, the results by the name of the method, the folder of the reports."""
    folder = checkout.parent / "results"
    command = ["--source", str(checkout), "--results", str(folder), "--workers", "1", "distributed/test_c10d_common"]
    status = cli.main([*command, "--test", tests, *arguments])
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return status, {line["name"][1].split(".")[1]: line for line in lines if "name" in line}, folder


def child(checkout: pathlib.Path) -> pathlib.Path:
    """Where a test that sleeps writes the number of its child."""
    return checkout / "test" / "distributed" / "child"


def assert_child_ends(checkout: pathlib.Path) -> None:
    state = pathlib.Path("/proc", child(checkout).read_text(), "stat")
    deadline = time.monotonic() + 10
    while state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] != "Z":
        assert time.monotonic() < deadline, "the test's child is still there"
        time.sleep(0.05)


def test_ranks_run_on_their_devices_and_report_fallbacks(checkout: pathlib.Path) -> None:
    status, results, folder = run(checkout, "TestRanks.*", "--test-limit", "200")
    assert status == 1
    assert results["test_all_reduce"]["outcome"] == "passed", results["test_all_reduce"]["trace"]
    assert results["test_all_reduce"]["fallbacks"] == ["example_of_ranks::negate"]
    wrong = results["test_wrong_on_rank_1"]
    assert (wrong["outcome"], wrong["cpu"]) == ("failed", "passed")
    assert wrong["text"].startswith("rank 1: AssertionError: False is not true")
    assert "| distributed/test_c10d_common | accelerator | 2 |" in (folder / "page.md").read_text()


def test_what_passes_without_the_device_does_not_count_and_what_fails_is_tried_without_it(
    checkout: pathlib.Path,
) -> None:
    status, results, folder = run(checkout, "*add,*without_device,*wrong_here,*wrong_everywhere")
    assert status == 1
    assert {name: (result["outcome"], result["cpu"]) for name, result in results.items()} == {
        "test_add": ("passed", None),
        "test_without_device": ("skipped", None),
        "test_wrong_here": ("failed", "passed"),
        "test_wrong_everywhere": ("failed", "failed"),
    }
    report = json.loads((folder / "report.json").read_text())
    assert report["skipped by"] == {"the runner: the device is not used": 1}
    counts = report["files"]["distributed/test_c10d_common"]
    assert (counts["kind"], counts["executed"], counts["failed"], counts["fail on stock cpu too"]) == (
        "accelerator",
        3,
        1,
        1,
    )


def test_what_a_test_started_ends_with_it(checkout: pathlib.Path) -> None:
    status, results, _ = run(checkout, "*sleeps", "--test-limit", "5")
    assert status == 1
    assert results["test_zz_sleeps"]["text"].startswith("hang: no result after")
    assert_child_ends(checkout)


def test_an_interrupt_ends_what_runs(checkout: pathlib.Path) -> None:
    command = "import signal, runpy; signal.signal(signal.SIGINT, signal.default_int_handler); "
    command += "runpy.run_module('torch_backend.pytorch_tests', run_name='__main__')"
    arguments = ["--source", str(checkout), "--results", str(checkout.parent / "results"), "--workers", "1"]
    run = subprocess.Popen([sys.executable, "-c", command, *arguments, "--kind", "accelerator", "--test", "*sleeps"])
    try:
        deadline = time.monotonic() + 120
        while not (child(checkout).exists() and child(checkout).read_text()):
            assert run.poll() is None
            assert time.monotonic() < deadline, "the test does not begin"
            time.sleep(0.1)
        run.send_signal(signal.SIGINT)
        assert run.wait(30) == 130
    finally:
        run.kill()
    assert_child_ends(checkout)


def test_tests_for_several_gpus_ask_how_many_devices_there_are() -> None:
    def test() -> None: ...

    def skip(needed: int) -> Any:
        return lambda test: f"skipped: {needed} are needed"

    decorator = of_so_many_devices(2, skip)
    assert decorator(2)(test) is test
    assert decorator(3)(test) == "skipped: 3 are needed"


def test_the_error_of_a_failed_test_is_that_of_its_first_rank() -> None:
    stack = "Traceback (most recent call last):\n  File x\n    f()\n"
    threads = f"Thread 1 exited with exception:\n{stack}ValueError: odd\n  shape\n\nThread 0 exited with exception:\n"
    assert error_of_rank(f"{threads}{stack}KeyError: 3") == "rank 1: ValueError: odd shape"
    assert error_of_rank("Tensor-likes are not close!") is None


def test_a_file_is_of_the_kind_of_its_folder(checkout: pathlib.Path) -> None:
    assert [kind_of(name) for name in ("test_ops", "nn/test_init")] == [DEVICE_TYPES] * 2
    assert [kind_of(name) for name in ("distributed/fsdp/test_wrap", "export/test_hop")] == [ACCELERATOR] * 2
    files = Checkout(checkout)
    assert files.files() == ["test_torch", "distributed/test_c10d_common"]
    assert files.files(kind=ACCELERATOR) == ["distributed/test_c10d_common"]
    assert files.files(kind=DEVICE_TYPES) == ["test_torch"]
