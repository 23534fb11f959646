"""The checks of the conformance suite, in this process: the CPU agrees with itself, and planted faults are found."""

import dataclasses
import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch_backend.conformance import schemas
from torch_backend.conformance.bits import bit_identical
from torch_backend.conformance.case import FAILED, NO_DTYPE, NOT_APPLICABLE, PASSED, Case, Observation, Result
from torch_backend.conformance.checks import (
    CHECKS,
    bad_arguments,
    fake,
    forward,
    list_cases,
    origins,
    out,
    versions,
)
from torch_backend.conformance.comparison import compare
from torch_backend.conformance.databases import operators
from torch_backend.conformance.device import Device
from torch_backend.conformance.device_copies import copy_tensor_to_device, copy_to_device
from torch_backend.conformance.execution import run_case, summarise
from torch_backend.conformance.outcome import Outcome, agree
from torch_backend.conformance.profiles import PROFILES, Limits
from torch_backend.conformance.randomness import agree_statistically, reference
from torch_backend.conformance.samples import samples

CPU = Device("cpu")
LIMITS = Limits(samples=3, window=32, elements=5_000, repeats=16)
ENTRIES = {
    "bad_arguments": ("bernoulli", NO_DTYPE),
    "errors": ("gather", NO_DTYPE),
    "origins": ("gather", NO_DTYPE),
    "dtypes": ("add", "bool"),
    "inplace_expanded": ("add", "float32"),
    "module": ("nn.BatchNorm2d", "float32"),
    "module_forward_ad": ("nn.BatchNorm2d", "float32"),
    "module_errors": ("nn.BatchNorm2d", NO_DTYPE),
    "optimizer": ("AdamW", "float32"),
    "optimizer_errors": ("AdamW", NO_DTYPE),
}


def run(check: str, entry: str, dtype: str) -> Result:
    return run_case(Case(check, entry, dtype), CPU, LIMITS)


# The CPU is one device, and queues nothing behind a call that fails.
@pytest.mark.parametrize(
    "check", [check for check in CHECKS if not check.endswith(("_devices", "_device", "behind_failures"))]
)
def test_the_cpu_agrees_with_itself(check: str) -> None:
    if check == "dtypes":
        entry, dtype = "bitwise_and", "float32"
    else:
        entry, dtype = ENTRIES.get(check, ("sigmoid", "float32"))
    result = run(check, entry, dtype)
    assert (result.status, result.message) == (PASSED, "")
    assert result.samples > 0


@pytest.mark.parametrize("entry", ["randn", "normal.in_place", "nn.functional.dropout", "linspace", "sparse.mm.reduce"])
def test_special_operators_agree_with_themselves(entry: str) -> None:
    result = run("forward", entry, "float32")
    assert (result.status, result.message) == (PASSED, "")


PLANTED: dict[str, Any] = {
    "values differ": lambda tensor: tensor + 1,
    "dtype is": lambda tensor: tensor.double(),
    "shape is": lambda tensor: tensor.unsqueeze(0),
}


@pytest.mark.parametrize("text", PLANTED)
def test_a_planted_wrong_result_fails(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = forward.attempt

    def wrong(device: Device, call: Any) -> Outcome:
        outcome = right(device, call)
        result, arguments = outcome.value
        return Outcome(value=(PLANTED[text](result), arguments))

    monkeypatch.setattr(forward, "attempt", wrong)
    result = run("forward", "sigmoid", "float32")
    assert result.status == FAILED
    assert text in result.message
    assert result.extra["sample"]


def test_an_argument_that_is_written_to_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    right = forward.attempt

    def wrong(device: Device, call: Any) -> Outcome:
        outcome = right(device, call)
        outcome.value[1][0][0].fill_(5)
        return outcome

    monkeypatch.setattr(forward, "attempt", wrong)
    assert run("forward", "sigmoid", "float32").status == FAILED


@pytest.mark.parametrize("entry", ["sigmoid", "_foreach_add"])
def test_a_modification_that_does_not_count_fails(entry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = versions._modifications

    def wrong(function: Any, sample: Any, device: Device, out: Any = None) -> list[int]:
        counted = right(function, sample, device, out)
        return [0] * len(counted) if device is CPU else counted  # the suite's reference is another object

    assert run("versions", entry, "float32").status == PASSED
    monkeypatch.setattr(versions, "_modifications", wrong)
    result = run("versions", entry, "float32")
    assert result.status == FAILED
    assert "times; on the CPU" in result.message


def test_every_implementation_of_an_optimizer_has_its_modifications_counted() -> None:
    for entry in ("SGD", "Adam"):
        limits = dataclasses.replace(LIMITS, samples=0)
        result = run_case(Case("versions", entry, "float32"), CPU, limits)
        assert (result.status, result.message) == (PASSED, "")
        assert result.samples > 10


def test_an_exception_that_comes_late_is_listed_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("origins", "gather", NO_DTYPE).status == PASSED
    monkeypatch.setattr(origins, "origin", lambda *_: "at the next wait")
    assert "does not list" in run("origins", "gather", NO_DTYPE).message
    monkeypatch.setattr(origins, "late_operators", lambda _: {"gather"})
    assert run("origins", "gather", NO_DTYPE).status == PASSED
    monkeypatch.setattr(origins, "origin", lambda *_: "at the call")
    assert "remove the entry" in run("origins", "gather", NO_DTYPE).message


def test_other_strides_fail() -> None:
    one = torch.randn(3, 4)
    observation = compare(one, one.T.contiguous().T, CPU.device, strides=True)
    assert observation.problem is not None
    assert "strides" in observation.problem


def test_values_may_differ_within_the_tolerance_and_the_bits_are_counted() -> None:
    one = torch.ones(3)
    other = torch.nextafter(one, torch.full_like(one, 2.0))
    observation = compare([one, one], [one, other], CPU.device)
    assert (observation.problem, observation.tensors, observation.equal_bits) == (None, 2, 1)


def test_cancelled_derivatives_are_measured_by_the_largest() -> None:
    one, other = torch.tensor([100.0, 0.0]), torch.tensor([100.0, 1e-4])
    assert compare(one, other, CPU.device).problem is not None
    assert compare(one, other, CPU.device, cancelling=True).problem is None
    assert compare(one, other * 1.001, CPU.device, cancelling=True).problem is not None


def test_an_accepted_bad_argument_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device of this test accepts every number in a tensor and clamps it to a probability."""
    right = bad_arguments.caller

    def lenient(function: Any, sample: Any, device: Device) -> Any:
        if device is not LENIENT:
            return right(function, sample, device)
        return right(lambda p: function(p.nan_to_num(0).clamp(0, 1)), sample, device)

    monkeypatch.setattr(bad_arguments, "caller", lenient)
    result = run_case(Case("bad_arguments", "bernoulli", NO_DTYPE), LENIENT, LIMITS)
    assert result.status == FAILED
    assert "does not raise" in result.message


def test_a_bad_shape_that_is_reported_late_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    device, right = _Late("cpu"), bad_arguments.caller

    def late(function: Any, sample: Any, asked: Device) -> Any:
        call = right(function, sample, asked)

        def queued() -> Any:
            try:
                return call()
            except Exception as error:
                device.error = error

        return queued if asked is device else call

    monkeypatch.setattr(bad_arguments, "caller", late)
    result = run_case(Case("bad_arguments", "mm", NO_DTYPE), device, LIMITS)
    assert result.status == FAILED
    assert "raised at the next wait" in result.message


def test_operators_without_samples_get_calls_by_their_schemas() -> None:
    known = schemas.overloads()
    assert {"aten::randperm", "aten::normal_", "aten::bernoulli_.Tensor", "aten::_foreach_add_.Scalar"} <= set(known)
    for name in ("aten::randperm", "aten::normal_", "aten::_foreach_add_.Scalar"):
        assert known[name].samples(), name


class _Late(Device):
    """A device that raises errors at the next wait."""

    error: Exception | None = None

    def synchronize(self) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error


LENIENT = Device("cpu")


def test_exceptions_agree_by_type() -> None:
    runtime, index = Outcome(error=RuntimeError("a")), Outcome(error=IndexError("b"))
    assert agree(runtime, Outcome(error=RuntimeError("other text")), CPU, errors_count=True).problem is None
    assert "IndexError" in str(agree(runtime, index, CPU, errors_count=True).problem)
    assert "does not raise" in str(agree(runtime, Outcome(value=1), CPU).problem)
    assert "the device raises" in str(agree(Outcome(value=1), index, CPU).problem)


def test_an_equal_exception_is_no_pass_where_values_are_expected() -> None:
    error = Outcome(error=RuntimeError("a"))
    result = summarise(Case("forward", "x", "float32"), iter([agree(error, error, CPU)]))
    assert result.status == NOT_APPLICABLE


def test_a_case_without_samples_is_no_pass() -> None:
    assert summarise(Case("forward", "x", "float32"), iter([])).status == NOT_APPLICABLE


def test_one_failed_sample_fails_the_case() -> None:
    result = summarise(Case("forward", "x", "float32"), iter([Observation(), Observation(problem="wrong")]))
    assert (result.status, result.failed_samples, result.samples) == (FAILED, 1, 2)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12.0).view(3, 4).T,
        torch.arange(12.0)[1::3],
        torch.arange(3.0).expand(2, 3),
        torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
        torch.randn(3, dtype=torch.complex64).conj(),
        torch.randn(3, dtype=torch.complex64).conj().imag,
        torch.empty(0, 3),
        torch.tensor(2),
    ],
    ids=["transposed", "offset", "expanded", "channels last", "conjugate", "negative", "empty", "scalar"],
)
def test_a_copy_has_the_same_layout_and_memory_of_its_own(tensor: torch.Tensor) -> None:
    copied = copy_tensor_to_device(tensor, CPU.device)
    assert bit_identical(copied, tensor)
    facts = [(t.stride(), t.storage_offset(), t.is_conj(), t.is_neg()) for t in (copied, tensor)]
    assert facts[0] == facts[1]
    assert not tensor.numel() or copied.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr()


def test_a_tensor_that_occurs_twice_stays_one_tensor() -> None:
    tensor = torch.ones(2)
    one, (other,) = copy_to_device((tensor, [tensor]), CPU.device)
    assert one is other


def test_randomness_is_found_by_the_rule() -> None:
    assert reference(lambda: torch.randn(5))[1]
    assert reference(lambda: torch.nn.functional.dropout(torch.ones(5), 0.5))[1]
    assert not reference(lambda: torch.nn.functional.dropout(torch.ones(5), 0.0))[1]
    assert not reference(lambda: torch.ones(5))[1]


def test_another_distribution_fails() -> None:
    def draw() -> torch.Tensor:
        return torch.rand(200)

    expected, _ = reference(draw)
    assert agree_statistically(expected, draw, lambda: torch.rand(200), CPU, 16).problem is None
    problem = agree_statistically(expected, draw, lambda: 0.2 + 0.6 * torch.rand(200).square(), CPU, 16).problem
    assert "of result 0" in str(problem)


def test_a_random_operator_that_ignores_the_seed_fails() -> None:
    generator = torch.Generator()
    expected, _ = reference(lambda: torch.rand(200))
    problem = agree_statistically(
        expected, lambda: torch.rand(200), lambda: torch.rand(200, generator=generator), CPU, 16
    ).problem
    assert "same seed" in str(problem)


def test_samples_are_the_same_each_time() -> None:
    first, second = (samples(operators()["add"], torch.float32, LIMITS) for _ in range(2))
    assert len(first) == LIMITS.samples
    for one, other in zip(first, second, strict=True):
        assert compare(one.values, other.values, CPU.device).problem is None


def test_the_full_profile_has_every_operator_and_every_cpu_dtype() -> None:
    cases, without = list_cases(["forward"], PROFILES["full"], seed=0)
    assert len(cases) == sum(len(op.dtypes) for op in operators().values())
    assert {case.entry for case in cases} | {entry for _, entry in without} == set(operators())


def test_the_quick_profile_has_every_operator() -> None:
    cases, without = list_cases(["forward"], PROFILES["quick"], seed=0)
    assert {case.entry for case in cases} | {entry for _, entry in without} == set(operators())


def test_limits_can_be_seeded() -> None:
    other = dataclasses.replace(LIMITS, seed=1, samples=2)
    assert len(samples(operators()["add"], torch.float32, other)) == 2


def test_writes_outside_of_an_out_tensor_are_found() -> None:
    sample = samples(operators()["tril"], torch.float32, LIMITS)[0]
    given = out._strided(torch.ones(2, 3))

    def astray(*_: Any, out: torch.Tensor, **__: Any) -> torch.Tensor:
        return out.as_strided((1,), (1,), out.storage_offset() + 12).zero_()

    assert out._overruns(SimpleNamespace(op=astray), sample, given)
    assert not out._overruns(SimpleNamespace(op=lambda *_, out, **__: out.zero_()), sample, given)


def test_a_prediction_that_depends_on_the_devices_name_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only for listed operators, and only if the real result is what PyTorch predicts for the CPU."""
    predict, compute = fake._fake, fake._real

    def transposed(call: Any, device: Device) -> Any:
        return (lambda: call().mT) if device is CPU else call  # the suite's reference is another object

    monkeypatch.setattr(fake, "_fake", lambda op, sample, device: transposed(predict(op, sample, device), device))
    assert run("fake", "tril", "float32").status == FAILED
    monkeypatch.setattr(fake, "BY_NAME", ("tril",))
    assert run("fake", "tril", "float32").status == NOT_APPLICABLE
    index = {True: None, False: ...}
    monkeypatch.setattr(
        fake, "_real", lambda op, sample, device: lambda: compute(op, sample, device)()[index[device is CPU]]
    )
    assert run("fake", "tril", "float32").status == FAILED


def test_a_result_agrees_with_one_of_the_runs_of_a_cpu_kernel_that_varies() -> None:
    values = itertools.cycle([1.0, 2.0, 1.0])

    def agrees(of_the_cpu: Callable[[], float], of_the_device: float) -> bool:
        calls = (lambda: torch.tensor([of_the_cpu()])), (lambda: torch.tensor([of_the_device]))
        return forward.compare_calls(*calls, CPU, uninitialised=False, repeats=4).problem is None

    assert agrees(lambda: next(values), 1.0)
    assert agrees(lambda: next(values), 2.0)
    assert not agrees(lambda: next(values), 3.0)
    assert not agrees(lambda: 1.0, 2.0)


def test_an_ill_conditioned_result_may_move_as_far_as_the_cpus_own() -> None:
    """The last bit of x changes x - 1 a lot if x is near 1. A well-conditioned result gets no extra tolerance."""
    x = torch.tensor([1.0 + 2**-10])
    nudged = [x * (1 + sign * torch.finfo(x.dtype).eps) for sign in (1, -1)]
    cpu = torch.device("cpu")

    steep = (x - 1) * 1e4
    calls = [lambda moved=moved: (moved - 1) * 1e4 for moved in nudged]
    assert compare(steep, steep + 2e-3, cpu).problem is not None
    assert compare(steep, steep + 2e-3, cpu, nudged=calls).problem is None
    assert compare(steep, steep + 2e-2, cpu, nudged=calls).problem is not None

    flat = (x + 1) * 1e4
    calls = [lambda moved=moved: (moved + 1) * 1e4 for moved in nudged]
    assert compare(flat, flat * 1.001, cpu, nudged=calls).problem is not None
