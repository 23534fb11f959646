"""Tests of the simulated libopapi: its two phases, the calls that it refuses, and its results against NumPy's."""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from backends.simulated_operators import (
    BFLOAT16,
    CORE_EXCEPTION,
    NO_CONTEXT,
    NULL,
    PARAMETER,
    Array,
    Npu,
)
from sim_vendor.simulated import build

RANDOM = np.random.default_rng(5)
FLOAT, HALF, LONG = ctypes.c_int32(0), ctypes.c_int32(1), ctypes.c_int32(9)
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@pytest.fixture(scope="module")
def library() -> Path:
    return build("npu")


@pytest.fixture
def npu(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Npu]:
    monkeypatch.delenv("TB_SIMNPU_HIDE", raising=False)
    npu = Npu(library)
    yield npu
    npu.control.fault(None, -1, 0)
    npu.close()
    assert npu.control.misuse() == ""


def normal(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))), np.float32)


X, Y, TALL = normal(5, 6, 7), normal(6, 1), normal(40, 9)
CASES: dict[str, tuple[str, tuple[object, ...], Array]] = {
    "exp": ("Exp", (X,), np.exp(X)),
    "add broadcasts": ("Add", (X, Y, 0.5), X + np.float32(0.5) * Y),
    "div by number": ("Divs", (X, 3.0), X / 3),
    "gelu": ("GeluV2", (X, ctypes.c_int64(0)), gelu(X)),
    "clamp without upper bound": ("Clamp", (X, -0.5, None), np.maximum(X, np.float32(-0.5))),
    "sum of two dimensions": ("ReduceSum", (X, [0, 2], ctypes.c_bool(True), FLOAT), X.sum((0, 2), keepdims=True)),
    "mean": ("Mean", (X, [1], ctypes.c_bool(False), FLOAT), X.mean(1)),
    "largest": ("Amax", (X, [0, 1, 2], ctypes.c_bool(False)), X.max()),
    "norm": ("LinalgVectorNorm", (X, 2.0, [1], ctypes.c_bool(False), FLOAT), np.sqrt((X * X).sum(1))),
    "cumsum": ("Cumsum", (X, ctypes.c_int64(1), FLOAT), X.cumsum(1)),
    "softmax": ("Softmax", (X, ctypes.c_int64(-1)), softmax(X)),
    "matrices": ("Mm", (TALL, TALL.T), TALL @ TALL.T),
    "batches": ("BatchMatMul", (X, X.transpose(0, 2, 1)), X @ X.transpose(0, 2, 1)),
    "tril": ("Tril", (X, ctypes.c_int64(1)), np.tril(X, 1)),
    "flip": ("Flip", (X, [0, 2]), np.flip(X, (0, 2))),
    "embedding": ("Embedding", (TALL, np.array([[3, 0], [39, 3]])), TALL[[[3, 0], [39, 3]]]),
    "gather": (
        "Gather",
        (TALL, ctypes.c_int64(1), np.array([[1, 8], [0, 0]])),
        np.take_along_axis(TALL[:2], np.array([[1, 8], [0, 0]]), 1),
    ),
    "index select": ("IndexSelect", (X, ctypes.c_int64(2), np.array([6, 0, 6])), X[:, :, [6, 0, 6]]),
    "scatter add": (
        "ScatterAdd",
        (zeros(3, 2), ctypes.c_int64(0), np.array([[2, 2], [2, 0]]), np.array([[1, 2], [4, 8]], np.float32)),
        np.array([[0, 8], [0, 0], [5, 2]], np.float32),
    ),
    "cast to half": ("Cast", (X, HALF), X.astype(np.float16)),
    "cast to whole": ("Cast", (10 * X, LONG), (10 * X).astype(np.int64)),
    "compare": ("GtScalar", (X, 0.25), X > 0.25),
    "whole numbers": ("DivMods", (np.arange(-7, 8), 3, ctypes.c_int32(2)), np.arange(-7, 8) // 3),
    "choose": ("SWhere", (X > 0, X, Y), np.where(X > 0, X, Y)),
    "arange": ("Arange", (1.0, 4.0, 0.5), np.arange(1, 4, 0.5, dtype=np.float32)),
}
CUBE = {"Mm", "BatchMatMul"}  # these take a mode after the output


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_numpy(npu: Npu, name: str) -> None:
    function, parameters, expected = CASES[name]
    passed = [npu.tensor(each) if isinstance(each, np.ndarray) else each for each in parameters]
    out = npu.tensor(np.zeros_like(expected))
    npu.call(function, *passed, out, *([ctypes.c_int8(0)] if function in CUBE else []))
    np.testing.assert_allclose(out.numbers(), expected, rtol=2e-6, atol=2e-6)


def test_layer_norm_and_its_gradients_agree_with_differences(npu: Npu) -> None:
    x, weight, bias, grad = normal(4, 8), normal(8), normal(8), normal(4, 8)

    def forward(x: Array, weight: Array, bias: Array) -> Array:
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return np.asarray((x - mean) / np.sqrt(variance + 1e-5) * weight + bias)

    tensors = [npu.tensor(each) for each in (x, weight, bias)]
    out, mean, rstd = npu.tensor(zeros(4, 8)), npu.tensor(zeros(4, 1)), npu.tensor(zeros(4, 1))
    npu.call("LayerNorm", tensors[0], [8], *tensors[1:], ctypes.c_double(1e-5), out, mean, rstd)
    np.testing.assert_allclose(out.numbers(), forward(x, weight, bias), rtol=1e-5, atol=1e-5)
    gradients = [npu.tensor(np.zeros_like(each)) for each in (x, weight, bias)]
    wanted = (ctypes.c_bool * 3)(True, True, True)
    mask = ctypes.c_void_p(npu.function("aclCreateBoolArray", ctypes.c_void_p)(wanted, ctypes.c_uint64(3)))
    first = npu.tensor(grad)
    npu.call("LayerNormBackward", first, tensors[0], [8], mean, rstd, *tensors[1:], mask, *gradients)
    assert npu.function("aclDestroyBoolArray")(mask) == 0
    values = [each.astype(np.float64) for each in (x, weight, bias)]
    for which, found in enumerate(gradients):
        expected = np.zeros_like(values[which])
        for place in np.ndindex(expected.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = [each.copy() for each in values]
                moved[which][place] += step
                ends.append((forward(moved[0], moved[1], moved[2]) * grad).sum())
            expected[place] = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose(found.numbers(), expected, rtol=1e-4, atol=1e-4)


def test_every_16_bit_float_survives_a_round_trip(npu: Npu) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    halves = bits.view(np.float16)
    given, wide = npu.tensor(halves.copy()), npu.tensor(np.zeros(1 << 16, np.float32))
    npu.call("Cast", given, FLOAT, wide)
    np.testing.assert_array_equal(wide.numbers(), halves.astype(np.float32))
    back = npu.tensor(np.zeros(1 << 16, np.float16))
    npu.call("Cast", wide, HALF, back)
    np.testing.assert_array_equal(back.numbers(), halves)


def test_bfloat16_rounds_to_the_nearest_even(npu: Npu) -> None:
    given = npu.tensor(np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, -2.0, np.inf], np.float32))
    out = npu.tensor(np.zeros(5, np.int16), BFLOAT16)
    npu.call("Cast", given, ctypes.c_int32(BFLOAT16), out)
    assert out.numbers().view(np.uint16).tolist() == [0x3F80, 0x3F80, 0x3F82, 0xC000, 0x7F80]


def test_a_strided_output_does_not_write_between_its_elements(npu: Npu) -> None:
    storage = np.full((4, 6), 9, np.float32)
    x = normal(2, 3)
    given, out = npu.tensor(x), npu.tensor(storage[1:3, ::2])
    npu.call("Neg", given, out)
    whole = np.empty_like(storage)
    npu.copy_out(whole, out.memory)
    storage[1:3, ::2] = -x
    np.testing.assert_array_equal(whole, storage)


def test_an_output_may_be_the_input(npu: Npu) -> None:
    x = normal(100)
    both = npu.tensor(x)
    npu.call("Muls", both, 2.0, both)
    np.testing.assert_array_equal(both.numbers(), 2 * x)


def test_a_list_owns_its_tensors(npu: Npu) -> None:
    parts = [normal(2, 3), normal(4, 3)]
    tensors = [npu.tensor(each) for each in parts]
    npu._kept.clear()  # the list will destroy these tensors
    handles = (ctypes.c_void_p * 2)(*(each.handle for each in tensors))
    made = ctypes.c_void_p(npu.function("aclCreateTensorList", ctypes.c_void_p)(handles, ctypes.c_uint64(2)))
    out = npu.tensor(zeros(6, 3))
    npu.call("Cat", made, ctypes.c_int64(0), out)
    np.testing.assert_array_equal(out.numbers(), np.concatenate(parts))
    assert npu.function("aclDestroyTensorList")(made) == 0
    assert npu.function("aclDestroyTensor")(tensors[0].handle) == PARAMETER
    assert "was destroyed" in npu.text()
    for each in tensors:
        assert npu.function("aclrtFree")(each.memory) == 0


def exp(npu: Npu) -> tuple[Callable[[], Array], ctypes.c_void_p]:
    """An executor for the exponential of ones, and a function that reads its output."""
    given, out = npu.tensor(np.ones(8, np.float32)), npu.tensor(zeros(8))
    code, size, executor = npu.prepare("Exp", given, out)
    assert (code, size) == (0, 0)
    return out.numbers, executor


def test_work_runs_in_stream_order(npu: Npu) -> None:
    numbers, executor = exp(npu)
    go_on = threading.Event()
    hold = HOST_FUNCTION(lambda _: go_on.wait(30) and None)
    assert npu.function("aclrtLaunchHostFunc")(None, hold, None) == 0
    assert npu.launch("Exp", executor) == 0
    assert numbers().tolist() == [0] * 8
    go_on.set()
    assert npu.synchronize() == 0
    np.testing.assert_allclose(numbers(), [math.e] * 8, rtol=1e-6)


def test_an_executor_cannot_be_used_twice(npu: Npu) -> None:
    _, executor = exp(npu)
    assert npu.launch("Exp", executor) == 0
    assert npu.launch("Exp", executor) == PARAMETER
    assert "used already" in npu.text()
    assert npu.synchronize() == 0


def test_an_executor_that_never_ran_counts_as_alive(npu: Npu) -> None:
    _, executor = exp(npu)
    assert "1 executors" in npu.control.live()
    assert npu.function("aclDestroyAclOpExecutor")(executor) == PARAMETER
    assert "not repeatable" in npu.text()
    assert npu.function("aclSetAclOpExecutorRepeatable")(executor) == 0
    assert npu.function("aclDestroyAclOpExecutor")(executor) == 0
    assert "executors" not in npu.control.live()


def test_a_repeatable_executor_works_on_other_addresses(npu: Npu) -> None:
    given, out = npu.tensor(np.ones(8, np.float32)), npu.tensor(zeros(8))
    code, _, executor = npu.prepare("Neg", given, out)
    assert code == 0
    assert npu.function("aclSetAclOpExecutorRepeatable")(executor) == 0
    assert npu.launch("Neg", executor) == 0
    others = npu.tensor(np.full(8, 5, np.float32)), npu.tensor(zeros(8))
    index, set_input = ctypes.c_size_t(0), npu.function("aclSetInputTensorAddr")
    assert set_input(executor, index, given.handle, others[0].memory) == 0
    assert npu.function("aclSetOutputTensorAddr")(executor, index, out.handle, others[1].memory) == 0
    assert npu.launch("Neg", executor) == 0
    assert npu.synchronize() == 0
    assert out.numbers().tolist() == [-1] * 8
    assert others[1].numbers().tolist() == [-5] * 8
    assert set_input(executor, ctypes.c_size_t(1), given.handle, others[0].memory) == PARAMETER
    assert set_input(executor, index, out.handle, others[0].memory) == PARAMETER
    assert npu.function("aclDestroyAclOpExecutor")(executor) == 0


def test_descriptions_must_be_alive_until_the_second_phase(npu: Npu) -> None:
    given, out = npu.tensor(np.ones(8, np.float32)), npu.tensor(zeros(8))
    for early in (False, True):
        code, _, executor = npu.prepare("Exp", given, out)
        assert code == 0
        if early:
            given.destroy(memory=False)
        assert npu.launch("Exp", executor) == (PARAMETER if early else 0)
        if not early:
            given.destroy(memory=False)
            given = npu.tensor(np.ones(8, np.float32))
            assert npu.synchronize() == 0
    for each in npu._kept:
        if each is not out:
            assert npu.function("aclrtFree")(each.memory) == 0
    npu._kept[:] = [out]
    assert "1 tensors" in npu.control.live()


def test_a_workspace_that_is_too_small_is_refused(npu: Npu) -> None:
    given, out = npu.tensor(normal(6, 6)), npu.tensor(zeros(6, 6))
    code, size, executor = npu.prepare("Mm", given, given, out, ctypes.c_int8(0))
    assert code == 0
    assert size > 0
    workspace = npu.allocate(size)
    assert npu.launch("Mm", executor, workspace, size - 1) == PARAMETER
    assert f"needs {size} bytes" in npu.text()
    assert npu.function("aclrtFree")(workspace) == 0


def test_the_whole_workspace_is_overwritten(npu: Npu) -> None:
    given, out = npu.tensor(normal(6, 6)), npu.tensor(zeros(6, 6))
    code, size, executor = npu.prepare("Mm", given, given, out, ctypes.c_int8(0))
    assert code == 0
    workspace = npu.tensor(np.zeros(size, np.uint8))
    assert npu.launch("Mm", executor, workspace.memory, size) == 0
    assert npu.synchronize() == 0
    assert set(workspace.numbers().tolist()) == {0xC3}


@pytest.mark.parametrize("which", ["input", "output", "workspace", "other device"])
def test_invalid_memory_is_reported_by_synchronising(npu: Npu, which: str) -> None:
    given, out = npu.tensor(normal(6, 6)), npu.tensor(zeros(6, 6))
    free = npu.function("aclrtFree")
    if which == "other device":
        assert npu.function("aclrtSetDevice")(1) == 0
        far = npu.tensor(normal(6, 6))
        assert npu.function("aclrtSetDevice")(0) == 0
        code, size, executor = npu.prepare("Mm", far, given, out, ctypes.c_int8(0))
    else:
        code, size, executor = npu.prepare("Mm", given, given, out, ctypes.c_int8(0))
    assert code == 0
    workspace = npu.allocate(size)
    memory = {"input": given.memory, "output": out.memory, "workspace": workspace}.get(which)
    if memory is not None:
        assert free(memory) == 0
    assert npu.launch("Mm", executor, workspace, size) == 0
    assert npu.synchronize() == CORE_EXCEPTION
    assert "alive" in npu.text()
    assert npu.synchronize() == 0  # reported once
    for each in (given, out):
        each.destroy(memory=each.memory is not memory)
    npu._kept[:] = [each for each in npu._kept if each not in (given, out)]
    if workspace is not memory:
        assert free(workspace) == 0
    if which == "other device":
        assert npu.function("aclrtResetDevice")(1) == 0
        assert npu.function("aclrtResetDevice")(0) == 0  # it was set twice


def test_phase_one_refuses_invalid_arguments(npu: Npu) -> None:
    x, y, whole = npu.tensor(normal(3, 4)), npu.tensor(normal(2, 4)), npu.tensor(np.zeros((3, 4), np.int64))
    refusals: list[tuple[int, str, tuple[object, ...]]] = [
        (NULL, "Exp", (x, None)),
        (PARAMETER, "Exp", (x, y)),
        (PARAMETER, "Exp", (whole, whole)),
        (PARAMETER, "Add", (x, y, 1.0, x)),
        (PARAMETER, "Mul", (x, whole, x)),
        (NULL, "Muls", (x, None, x)),
        (PARAMETER, "Mm", (x, y, x, ctypes.c_int8(0))),
        (PARAMETER, "Softmax", (x, ctypes.c_int64(2), x)),
        (PARAMETER, "ReduceSum", (x, [0, 0], ctypes.c_bool(False), FLOAT, y)),
        (PARAMETER, "Embedding", (x, x, x)),
    ]
    for code, name, arguments in refusals:
        assert npu.prepare(name, *arguments)[0] == code, name
        assert f"aclnn{name}" in npu.text()
    assert "executors" not in npu.control.live()


def test_an_index_out_of_range_is_reported_by_synchronising(npu: Npu) -> None:
    table, indices, out = npu.tensor(normal(3, 2)), npu.tensor(np.array([0, 3])), npu.tensor(zeros(2, 2))
    code, _, executor = npu.prepare("Embedding", table, indices, out)
    assert code == 0
    assert npu.launch("Embedding", executor) == 0
    assert npu.synchronize() == CORE_EXCEPTION
    assert "no element 3 of 3" in npu.text()


def test_a_thread_without_a_device_is_refused(npu: Npu) -> None:
    given, codes = npu.tensor(normal(3)), []
    thread = threading.Thread(target=lambda: codes.append(npu.prepare("Exp", given, given)[0]))
    thread.start()
    thread.join()
    assert codes == [NO_CONTEXT]


def test_functions_are_counted_and_hidden_one_by_one(npu: Npu, monkeypatch: pytest.MonkeyPatch) -> None:
    before = npu.control.calls("aclnnExp"), npu.control.calls("aclnnExpGetWorkspaceSize")
    _, executor = exp(npu)
    assert npu.launch("Exp", executor) == npu.synchronize() == 0
    assert (npu.control.calls("aclnnExp"), npu.control.calls("aclnnExpGetWorkspaceSize")) == (
        before[0] + 1,
        before[1] + 1,
    )
    dlsym = ctypes.CDLL(None).dlsym  # ctypes itself cannot look up a symbol whose address is NULL
    dlsym.restype = ctypes.c_void_p
    library = ctypes.c_void_p(npu._libraries[1]._handle)
    monkeypatch.setenv("TB_SIMNPU_HIDE", "aclnnCosGetWorkspaceSize,aclDestroyAclOpExecutor")
    assert dlsym(library, b"aclnnCosGetWorkspaceSize") is None
    assert dlsym(library, b"aclDestroyAclOpExecutor") is None
    assert dlsym(library, b"aclnnCos") is not None


def test_faults_of_either_phase_leave_no_executor(npu: Npu) -> None:
    given = npu.tensor(np.ones(8, np.float32))
    npu.control.fault("aclnnNegGetWorkspaceSize", 0, 561003)
    assert npu.prepare("Neg", given, given)[0] == 561003
    npu.control.fault("aclnnNeg", 0, 361001)
    code, _, executor = npu.prepare("Neg", given, given)
    assert code == 0
    assert npu.launch("Neg", executor) == 361001
    assert "executors" not in npu.control.live()
    npu.control.fail_task(0, CORE_EXCEPTION)
    code, _, executor = npu.prepare("Neg", given, given)
    assert npu.launch("Neg", executor) == 0
    assert npu.synchronize() == CORE_EXCEPTION
    assert given.numbers().tolist() == [1] * 8
