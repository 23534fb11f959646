"""A copy between host and device that blocks has happened when it returns: every stream and thread sees its result."""

from __future__ import annotations

import pathlib
import subprocess
import textwrap

import pytest
import torch
from asynchronous import blocking_copies
from asynchronous.blocking_copies import READERS, SIZES, STATES, TO_DEVICE, TO_HOST, wrong
from conftest import RunPython

SMALL = [size for size in SIZES if size <= 1 << 20]
HERE = str(pathlib.Path(__file__).parent)
# What the table has to notice: a copy that is queued and not waited for.
QUEUED = "copy_, non_blocking, from pinned memory"


@pytest.mark.parametrize("call", [*TO_DEVICE, *TO_HOST])
@pytest.mark.filterwarnings("ignore:To copy construct from a tensor")
def test_what_a_blocking_call_copied_is_there(call: str) -> None:
    found = {
        (reader, state, SIZES[size]): count
        for reader in READERS
        for state in STATES
        for size in SIZES
        if (count := wrong(call, reader, state, size, repetitions=10 if state == "idle" else 3))
    }
    assert found == {}


@pytest.mark.parametrize("reader", READERS)
def test_a_queued_copy_is_noticed(reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = {QUEUED: lambda x, y: y.copy_(x.clone().pin_memory(), non_blocking=True)}
    monkeypatch.setattr(blocking_copies, "TO_DEVICE", calls)
    monkeypatch.setattr(blocking_copies, "MAY_RETURN", 5)  # a loaded machine is slow to copy
    first_call = 1  # it waits for the shapes of its result
    assert all(wrong(QUEUED, reader, "held", size, repetitions=3) >= 3 - first_call for size in SMALL)


def on_sim(run_python: RunPython, seed: int, code: str) -> subprocess.CompletedProcess[str]:
    lines = [f"import sys; sys.path.insert(0, {HERE!r})", "import blocking_copies", textwrap.dedent(code)]
    env = {"TB_DRIVER": "sim", "TB_SIM_SEED": str(seed), "TB_FALLBACK": "allow", "PYTHONWARNINGS": "ignore"}
    return run_python("\n".join(lines), env, check=False, timeout=280)


@pytest.mark.parametrize("seed", [1, 4])
def test_it_is_there_on_a_device_that_holds_its_work_back(seed: int, run_python: RunPython) -> None:
    done = on_sim(
        run_python,
        seed,
        """
        blocking_copies.SIZES = {4096: "4 KiB"}
        sys.exit(blocking_copies.main(1))
        """,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("none wrong of 1 each") == len(TO_DEVICE) + len(TO_HOST)


def test_such_a_device_shows_a_queued_copy(run_python: RunPython) -> None:
    done = on_sim(
        run_python,
        4,
        f"""
        queued = lambda x, y: y.copy_(x.clone().pin_memory(), non_blocking=True)
        blocking_copies.TO_DEVICE = {{{QUEUED!r}: queued}}
        print(sum(blocking_copies.wrong({QUEUED!r}, "a second stream", "held", 4096, 3) for _ in range(3)))
        """,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout) > 0


# ---- pinned memory ---------------------------------------------------------------------------------------------------


def test_a_number_in_pinned_memory_is_read_and_written_when_the_stream_comes_by() -> None:
    number = torch.tensor(3.0).pin_memory()
    read = torch.empty((), pin_memory=True)
    x = torch.zeros((), device="tb")
    x.copy_(number, non_blocking=True)
    x += 1
    read.copy_(x, non_blocking=True)
    torch.accelerator.synchronize()
    assert read.item() == 4


def test_pinned_memory_serves_nobody_else_before_its_copy_is_done(run_python: RunPython) -> None:
    code = """
        import torch
        y = torch.zeros(1000, device="tb")
        for i in range(50):
            x = torch.full((1000,), float(i)).pin_memory()
            y.copy_(x, non_blocking=True)
            del x
            torch.full((1000,), -1.0).pin_memory()
            assert (y == i).all().item(), i
        """
    for driver in ("cpu", "sim"):
        run_python(code, {"TB_DRIVER": driver, "TB_FALLBACK": "allow"})
