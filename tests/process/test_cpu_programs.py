"""A program for the CPU prints the same bytes where torch-backend is installed as where it is not."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import IO, Any

import pytest
from process.cpu_programs import programs

PROGRAMS = sorted(programs())


class Runner:
    """A process that runs programs, with the package or without."""

    def __init__(self, cache: pathlib.Path, with_package: bool) -> None:
        # Inductor generates its code both times; compiled code is found by the code and shared.
        inductor = {"CACHE_DIR": str(cache), "FX_GRAPH_CACHE": "0", "AUTOGRAD_CACHE": "0", "COMPILE_THREADS": "1"}
        variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TB_") or name == "TB_DRIVER"},
            **{f"TORCHINDUCTOR_{name}": value for name, value in inductor.items()},
            "TORCH_DEVICE_BACKEND_AUTOLOAD": str(int(with_package)),
        }
        command = [sys.executable, "-m", "process.cpu_programs"]
        self.process = subprocess.Popen(
            command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, program: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(program + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        output: IO[str] | None = self.process.stdout
        assert output is not None
        answer: dict[str, Any] = json.loads(output.readline())
        return answer


@pytest.fixture(scope="module")
def runners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Runner]]:
    cache = tmp_path_factory.mktemp("inductor")
    started = [Runner(cache, with_package) for with_package in (False, True)]
    assert [runner.answer() for runner in started] == [{"torch_backend": False}, {"torch_backend": True}]
    yield started
    for runner in started:
        runner.process.communicate()
        assert runner.process.returncode == 0


def test_there_are_at_least_thirty_programs() -> None:
    assert len(PROGRAMS) >= 30


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_prints_the_same_bytes(runners: list[Runner], program: str) -> None:
    for runner in runners:
        runner.start(program)
    without, found = [runner.answer() for runner in runners]
    assert without["status"] == 0, without["stderr"]
    assert without["stdout"]
    assert found["status"] == 0, found["stderr"]
    assert found["stdout"] == without["stdout"], found["stderr"]
