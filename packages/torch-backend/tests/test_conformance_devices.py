"""The conformance suite's checks of several devices, in this process: planted faults are found, and one is no pass."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch_backend.conformance.case import NO_DTYPE, NOT_APPLICABLE, PASSED, Case, Result
from torch_backend.conformance.checks import mixed_devices, out
from torch_backend.conformance.device import Device
from torch_backend.conformance.execution import run_case
from torch_backend.conformance.profiles import Limits

CPU = Device("cpu")
LIMITS = Limits(samples=3, window=32, elements=5_000, repeats=16)


def run(check: str, entry: str, dtype: str) -> Result:
    return run_case(Case(check, entry, dtype), CPU, LIMITS)


@pytest.mark.parametrize(("check", "dtype"), [("mixed_devices", NO_DTYPE), ("second_device", "float32")])
def test_checks_of_several_devices_do_not_pass_with_one(check: str, dtype: str) -> None:
    assert run(check, "add", dtype).status == NOT_APPLICABLE


def test_a_tensor_on_another_device_that_is_taken_is_listed_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Device, "elsewhere", lambda _: [torch.device("cpu")])  # which every operator takes
    assert "does not list it" in run("mixed_devices", "gather", NO_DTYPE).message
    monkeypatch.setattr(mixed_devices, "taken", lambda _: {"gather"})
    assert run("mixed_devices", "gather", NO_DTYPE).status == PASSED
    monkeypatch.setattr(mixed_devices, "values_problem", lambda *_: "values differ")
    assert "values differ" in run("mixed_devices", "gather", NO_DTYPE).message
    monkeypatch.setattr(mixed_devices, "problem_of_refusal", lambda *_: (None, None))
    assert "remove the entry" in run("mixed_devices", "gather", NO_DTYPE).message


def test_a_refusal_is_a_runtime_error_at_the_call() -> None:
    def raises(error: Exception) -> Callable[[], Any]:
        def call() -> Any:
            raise error

        return call

    assert mixed_devices.problem_of_refusal(CPU, raises(RuntimeError("on the same device"))) == (None, None)
    for error in (IndexError("out of range"), RuntimeError("x == y INTERNAL ASSERT FAILED"), ValueError()):
        assert "CUDA raises RuntimeError" in str(mixed_devices.problem_of_refusal(CPU, raises(error))[1])

    class Late(Device):
        def synchronize(self) -> None:
            raise RuntimeError("read too late")

    late = Late("cpu")
    assert "raises at the next wait" in str(mixed_devices.problem_of_refusal(late, lambda: 1)[1])


def test_out_on_another_device_that_is_taken_is_listed_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Device, "elsewhere", lambda _: [torch.device("cpu")])
    assert "takes out= on another device" in run("out", "sigmoid", "float32").message
    monkeypatch.setattr(out, "taken", lambda _: {"sigmoid"})
    assert run("out", "sigmoid", "float32").status == PASSED
    monkeypatch.setattr(out, "problem_of_refusal", lambda *_: (None, None))
    assert "remove the entry" in run("out", "sigmoid", "float32").message


def test_sizes_without_memory_are_found() -> None:
    broken = torch.empty(0)
    assert out._holds_its_elements(broken)
    broken.untyped_storage().resize_(16)
    broken = broken.set_(broken.untyped_storage(), 0, (4,), (1,))  # type: ignore[call-overload]
    assert out._holds_its_elements(broken)
    broken.untyped_storage().resize_(8)
    assert not out._holds_its_elements(broken)


def test_an_entry_that_is_listed_may_refuse_where_there_is_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(out, "taken", lambda _: {"sigmoid"})
    monkeypatch.setattr(out, "problem_of_refusal", lambda *_: (None, None))
    monkeypatch.setattr(Device, "elsewhere", lambda _: [torch.device("meta")])  # of another type
    assert run("out", "sigmoid", "float32").status == PASSED
