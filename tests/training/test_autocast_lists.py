"""Runs PyTorch's own autocast test lists on tb: values are checked by PyTorch's harness, dtypes against CUDA's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tb_amp
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal import autocast_test_lists
from torch.utils._pytree import tree_map
from torch_backend.conformance.bits import bit_identical

AutocastTestLists: Any = autocast_test_lists.AutocastTestLists  # the module has no types
AutocastCPUTestLists: Any = autocast_test_lists.AutocastCPUTestLists
TestAutocast: Any = autocast_test_lists.TestAutocast
LOW = [torch.float16, torch.bfloat16]
CUDNN = pytest.mark.xfail(strict=True, reason="an operator of the cuDNN library: no other device has a kernel for it")
AVERAGE = pytest.mark.xfail(strict=True, reason="the CPU's kernel takes no 16-bit types, which CUDA leaves as they are")
IMPOSSIBLE = {"cudnn_convolution": CUDNN, "cudnn_convolution_transpose": CUDNN, "avg_pool3d": AVERAGE}
# A build without CUDA cannot predict CUDA's results of these operators, because it would have to read a value or call
# the CUDA library. For these the expectation of the lists is used.
UNREPORTED = {"equal", "grid_sampler", "gru_cell", "cudnn_convolution", "cudnn_convolution_transpose"}


class Case:
    """One entry of a list: an operator and its arguments."""

    def __init__(self, list_name: str, entry: tuple[Any, ...], arguments: tuple[Any, ...]) -> None:
        self.list_name, self.name, self.arguments = list_name, entry[0], arguments
        self.options: dict[str, Any] = next((part for part in entry[2:] if isinstance(part, dict)), {})
        self.out_type = next((part for part in entry[2:] if isinstance(part, torch.dtype)), None)
        # For einsum the list has the equation instead of the tensors, and a different number of entries.
        if self.name == "einsum":
            self.arguments = ("ij,jk->ik", *entry[2])
        on_nn = list_name.startswith("nn_") or list_name == "banned"
        bindings: Any = torch._C
        self.module: Any = bindings._nn if on_nn else bindings._linalg if list_name.startswith("linalg") else torch
        if list_name.startswith("methods"):
            self.module = None

    def __call__(self, arguments: tuple[Any, ...]) -> Any:
        function: Callable[..., Any] | None = getattr(self.module, self.name, None) or getattr(torch, self.name, None)
        if self.module is None or function is None:
            function = getattr(Tensor, self.name)
        return function(*arguments, **self.options)


def cases(lists: Any) -> list[Case]:
    """All entries of all lists, with arguments on the CPU."""
    torch.manual_seed(0)
    found = []
    for list_name, entries in vars(lists("cpu")).items():
        for entry in entries:
            several = [part for part in entry[1:] if isinstance(part, tuple)]
            given = several if "builtin" in list_name or "promote" in list_name else several[:1]
            found += [Case(list_name, entry, arguments) for arguments in given or [()]]
    return found


CUDA_CASES, CPU_CASES = cases(AutocastTestLists), cases(AutocastCPUTestLists)


def parameters(found: list[Case]) -> list[Any]:
    return [
        pytest.param(case, id=f"{case.list_name}-{number}-{case.name}", marks=IMPOSSIBLE.get(case.name, ()))
        for number, case in enumerate(found)
    ]


def test_the_lists_are_read_whole() -> None:
    assert len(CUDA_CASES) == sum(len(entries) for entries in vars(AutocastTestLists("cpu")).values()) > 100
    assert len(CPU_CASES) >= sum(len(entries) for entries in vars(AutocastCPUTestLists("cpu")).values()) > 50
    named = {name.split(".")[0] for names in tb_amp.rules().values() for name in names}
    assert len(named & {case.name for case in CUDA_CASES + CPU_CASES}) > 75, "most operators with a rule are in a list"


@pytest.fixture
def harness() -> Any:
    return TestAutocast()


def run_as(case: Case, low: torch.dtype) -> torch.dtype:
    return low if case.list_name.endswith("16") else torch.float32


def test_einsum_gets_the_lower_type() -> None:
    # The harness would split the equation into characters.
    a, b = torch.randn(2, 8, 8, device="tb")
    with torch.autocast("tb", torch.bfloat16):
        found = torch.einsum("ij,jk->ik", a, b)
    assert bit_identical(found, torch.einsum("ij,jk->ik", a.bfloat16(), b.bfloat16()))


@pytest.mark.usefixtures("no_fallbacks")
@pytest.mark.parametrize(
    "case", parameters([case for case in CUDA_CASES if case.list_name != "banned" and case.name != "einsum"])
)
@pytest.mark.parametrize("low", LOW, ids=str)
def test_values_are_those_of_casting_by_hand(case: Case, low: torch.dtype, harness: Any) -> None:
    arguments = tree_map(lambda x: x.to("tb") if isinstance(x, Tensor) else x, case.arguments)
    if low is torch.bfloat16 and "need_autocast_promote" in case.list_name:
        # Autocast to bfloat16 does not promote the lists' float16 tensors, so they are converted.
        arguments = tree_map(lambda x: x.bfloat16() if getattr(x, "dtype", 0) == torch.float16 else x, arguments)
    harness._run_autocast_outofplace(
        case.name,
        arguments,
        run_as(case, low),
        "tb",
        out_type=case.out_type,
        module=case.module,
        add_kwargs=case.options,
        amp_dtype=low,
    )


def dtypes_of(result: Any) -> Any:
    return tree_map(lambda x: x.dtype if isinstance(x, Tensor) else type(x), result)


def on_cuda(case: Case, low: torch.dtype) -> Any:
    """The dtypes of CUDA's results, or the exception's type. Fake tensors can apply CUDA's rules in every build."""
    before = torch.get_autocast_dtype("cuda")
    with FakeTensorMode():
        arguments = tree_map(
            lambda x: torch.empty(x.shape, dtype=x.dtype, device="cuda") if isinstance(x, Tensor) else x, case.arguments
        )
        torch.set_autocast_enabled("cuda", True)
        torch.set_autocast_dtype("cuda", low)
        try:
            return dtypes_of(case(arguments))
        except RuntimeError as error:
            if "unsafe to autocast" in str(error) or "Unexpected floating ScalarType" in str(error):
                return RuntimeError
            raise
        finally:
            torch.set_autocast_enabled("cuda", False)
            torch.set_autocast_dtype("cuda", before)


@pytest.mark.parametrize("case", parameters(CUDA_CASES + CPU_CASES))
@pytest.mark.parametrize("low", LOW, ids=str)
def test_dtypes_are_those_that_cuda_gives(case: Case, low: torch.dtype) -> None:
    try:
        expected = on_cuda(case, low)
    except (AssertionError, RuntimeError):
        if case.name not in UNREPORTED:
            raise
        expected = bool if case.name == "equal" else run_as(case, low)
    arguments = tree_map(lambda x: x.to("tb") if isinstance(x, Tensor) else x, case.arguments)
    with torch.autocast("tb", low):
        if expected is RuntimeError:
            with pytest.raises(RuntimeError, match=r"unsafe to autocast|Unexpected floating ScalarType"):
                case(arguments)
        else:
            assert dtypes_of(case(arguments)) == expected
